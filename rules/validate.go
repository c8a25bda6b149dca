package rules

import (
	"errors"
	"fmt"
	"strings"
)

// maxLimits is the most limits of one policy.
const maxLimits = 16

// Validate reports everything that is wrong with a policy, one error per problem, joined; nil if nothing is. It
// finds what [Parse] finds in a directive, and what limits of one method have against each other.
func (p *Policy) Validate() error {
	if p == nil {
		return errors.New("rules: found a nil policy, want one")
	}
	v := validation{policy: p}
	v.names()
	switch n := len(p.Limits); {
	case n == 0:
		v.failf("has no limits, want one or more")
	case n > maxLimits:
		v.failf("has %d limits, want at most %d", n, maxLimits)
		return v.err()
	}
	for i := range p.Limits {
		v.limit(i)
	}
	v.distinct("name", p.Name, "want one for each; set Name")
	v.distinct("key", p.KeyTemplate, "want one for each; set Bucket or Prefix to another word, or put the rules into one limit")
	return v.err()
}

// A validation gathers the problems of a policy.
type validation struct {
	policy *Policy
	errs   []error
}

func (v *validation) err() error { return errors.Join(v.errs...) }

func (v *validation) failf(format string, args ...any) {
	where := fmt.Sprintf("rules: policy %q: ", v.policy.Type+"."+v.policy.Method)
	v.errs = append(v.errs, fmt.Errorf(where+format, args...))
}

// names checks that type and method make a key of their own.
func (v *validation) names() {
	switch typ := v.policy.Type; {
	case typ == "":
		v.failf("has no Type, want one such as orders.Orders")
	case strings.ContainsAny(typ, "-@"):
		v.failf("has the Type %q, want none of - and @, which separate the parts of a key", typ)
	}
	switch method := v.policy.Method; {
	case method == "":
		v.failf("has no Method, want one")
	case strings.Contains(method, "@"):
		v.failf("has the Method %q, want no @, which separates the parts of a key", method)
	}
}

func (v *validation) limit(i int) {
	l := &v.policy.Limits[i]
	failf := func(format string, args ...any) {
		v.failf("Limits[%d] (%s): %s", i, l, fmt.Sprintf(format, args...))
	}
	known, ok := findDirective(l.Kind.String())
	if !ok {
		failf("found %s, want IP, User, Global, Key, Concurrency or Lock", l.Kind)
		return
	}
	for _, msg := range l.checkQuantity(known) {
		failf("%s", msg)
	}
	var texts []string
	for _, r := range l.Rules {
		texts = append(texts, r.String())
	}
	for _, f := range checkRules(l, texts) {
		failf("%s", f.msg)
	}
	for _, msg := range checkOptions(l, known.name) {
		failf("%s", msg)
	}
	for _, need := range known.needs {
		if o, _ := findOption(need); o.print(l) == "" {
			failf("%s", lacks(known, o))
		}
	}
}

// distinct checks that no two limits have the same text. The message ends with want.
func (v *validation) distinct(what string, of func(int) string, want string) {
	first := map[string]int{}
	for i := range v.policy.Limits {
		text := of(i)
		j, ok := first[text]
		if !ok {
			first[text] = i
			continue
		}
		v.failf("has the %s %q for Limits[%d] and Limits[%d], %s", what, text, j, i, want)
	}
}
