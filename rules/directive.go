package rules

import (
	"slices"
	"strconv"
	"strings"
)

// Namespace begins every directive.
const Namespace = "//ratelimit:"

// Directive is one parsed line. The zero Directive is not valid.
type Directive struct {
	// Name is what stands behind the colon: "user", "none", "wrapper".
	Name string
	// Limit is valid where the directive counts calls: see [Directive.Counts].
	Limit Limit
	// Wrapper is the name that a wrapper directive gives; empty if it gives none, and for every other directive.
	Wrapper string
	// Constructor is the function by which a wrapper directive says that the service is made, "none" for none that
	// injection files are to know; empty if it does not say.
	Constructor string
	// Columns has, by the name of an option, the 1-based byte column in the comment's text of the first
	// byte of its value, inside the quotes of a quoted one. "rules" is the column of the first rule, or of a count, "wrapper"
	// that of the wrapper's name. [Column] finds the other bytes of a value.
	Columns map[string]int
}

// A form is what may stand behind a directive's name.
type form uint8

const (
	formNothing form = iota
	formRules        // rules, then options
	formCount        // a count, then options
	formOptions      // options
	formWrapper      // a Go identifier, the option constructor, or both
)

// before says what stands before options.
func (f form) before() string {
	switch f {
	case formRules:
		return "rules as count,window and then "
	case formCount:
		return "a count and then "
	}
	return ""
}

// A directive is what may stand behind "//ratelimit:". The table below is the only place that knows them.
type directive struct {
	name  string
	form  form
	kind  Kind     // zero for what counts nothing
	needs []string // options that it must have
}

// directives in the order in which messages list them.
var directives = []directive{
	{name: "ip", form: formRules, kind: IP},
	{name: "user", form: formRules, kind: User},
	{name: "global", form: formRules, kind: Global},
	{name: "key", form: formRules, kind: Key, needs: []string{"by"}},
	{name: "concurrency", form: formCount, kind: Concurrency},
	{name: "lock", form: formOptions, kind: Lock},
	{name: "none", form: formNothing},
	{name: "wrapper", form: formWrapper},
}

var directiveNames = namesOf(directives, func(d directive) string { return d.name })

func findDirective(name string) (directive, bool) {
	i := slices.Index(directiveNames, name)
	if i < 0 {
		return directive{}, false
	}
	return directives[i], true
}

// example returns a line that has the directive.
func (d directive) example() string {
	line := Namespace + d.name
	switch d.form {
	case formRules:
		line += " 10,1s"
	case formCount:
		line += " 10"
	case formWrapper:
		line += " LimitedOrders"
	}
	for _, need := range d.needs {
		o, _ := findOption(need)
		line += " " + o.pair(o.example)
	}
	return line
}

// Counts reports whether the directive counts calls, so that its Limit is valid.
func (d Directive) Counts() bool {
	known, _ := findDirective(d.Name)
	return known.kind != 0
}

// String returns the directive's canonical line, "//ratelimit:user 10,1s", which [Parse] reads back as d but for
// its Columns.
func (d Directive) String() string {
	if d.Counts() {
		return Namespace + d.Limit.String()
	}
	line := Namespace + d.Name
	if d.Wrapper != "" {
		line += " " + d.Wrapper
	}
	if d.Constructor != "" {
		line += " constructor=" + d.Constructor
	}
	return line
}

// String returns the limit as a directive has it behind the colon: "user 10,1s 100,1m onfail=closed". Options
// that have their default are left out. [Parse] reads the same Limit back if it is valid.
func (l Limit) String() string {
	var b strings.Builder
	b.WriteString(l.Kind.String())
	if l.Count != 0 {
		b.WriteString(" " + strconv.FormatInt(l.Count, 10))
	}
	for _, r := range l.Rules {
		b.WriteString(" " + r.String())
	}
	for _, o := range options {
		if value := o.print(&l); value != "" {
			b.WriteString(" " + o.pair(value))
		}
	}
	return b.String()
}
