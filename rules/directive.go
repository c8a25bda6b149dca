package rules

import (
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Namespace begins every directive.
const Namespace = "//ratelimit:"

// Directive is one parsed line.
type Directive struct {
	// Name is what stands behind the colon: "user", "none", "wrapper".
	Name string
	// Limit is valid where the directive counts calls: see [Directive.Counts].
	Limit Limit
	// Wrapper is the name that a wrapper directive gives; empty for every other directive.
	Wrapper string
	// Columns has, by the name of an option, the 1-based byte column in the comment's text of the first
	// byte of its value, behind the quote of a quoted one. "rules" is the column of the first rule, and
	// "wrapper" that of the wrapper's name.
	Columns map[string]int
}

// A directive's form: what its name is followed by.
type form uint8

const (
	noArguments form = iota
	rulesAndOptions
	oneIdentifier
)

// A directive is what may stand behind "//ratelimit:". The table below is the only place that knows them.
type directive struct {
	name  string
	form  form
	kind  Kind     // zero for what counts nothing
	needs []string // options it cannot do without
}

var directives = []directive{
	{name: "ip", form: rulesAndOptions, kind: IP},
	{name: "user", form: rulesAndOptions, kind: User},
	{name: "global", form: rulesAndOptions, kind: Global},
	{name: "key", form: rulesAndOptions, kind: Key, needs: []string{"by"}},
	{name: "none", form: noArguments},
	{name: "wrapper", form: oneIdentifier},
}

var directiveNames = func() []string {
	var names []string
	for _, d := range directives {
		names = append(names, d.name)
	}
	return names
}()

func findDirective(name string) (directive, bool) {
	i := slices.IndexFunc(directives, func(d directive) bool { return d.name == name })
	if i < 0 {
		return directive{}, false
	}
	return directives[i], true
}

// Counts reports whether the directive counts calls, so that its Limit is valid.
func (d Directive) Counts() bool {
	known, _ := findDirective(d.Name)
	return known.form == rulesAndOptions
}

// String returns the directive's canonical line, which [Parse] reads back as d: rules as count,window, options in a
// fixed order, without those that say what is true anyway.
func (d Directive) String() string {
	switch {
	case d.Counts():
		return Namespace + d.Limit.String()
	case d.Wrapper != "":
		return Namespace + d.Name + " " + d.Wrapper
	}
	return Namespace + d.Name
}

// String returns the limit as a directive has it, behind the colon: "user 10,1s 100,1m onfail=closed".
func (l Limit) String() string {
	var b strings.Builder
	b.WriteString(l.Kind.String())
	for _, r := range l.Rules {
		b.WriteString(" " + r.String())
	}
	for _, o := range options {
		if value := o.print(&l); value != "" {
			b.WriteString(" " + o.name + "=" + quote(value))
		}
	}
	return b.String()
}

// Parse reads one directive: the whole text of a // comment, "//ratelimit:user 10,1s". Every error that it returns
// is an [Errors] with all problems of the line, and then the Directive is the zero one.
func Parse(comment string) (Directive, error) {
	text := strings.TrimSuffix(comment, "\r")
	exact, near := Match(text)
	if near != nil {
		return Directive{}, Errors{near}
	}
	var errs Errors
	if !exact {
		errs.addf(1, "found %q, want a directive, such as %q", text, "//ratelimit:user 10,1s")
		return Directive{}, errs.err()
	}
	end := len(Namespace)
	for !atBlank(text, end) {
		end++
	}
	d := Directive{Name: text[len(Namespace):end], Columns: map[string]int{}}
	known, ok := findDirective(d.Name)
	if !ok {
		errs.addf(len(Namespace)+1, "unknown directive %q, want %s%s", d.Name, list(directiveNames), didYouMean(d.Name, directiveNames))
		return Directive{}, errs.err()
	}
	args := fields(text, end, &errs)
	args = cutRemark(args, &errs)
	switch known.form {
	case noArguments:
		if len(args) > 0 {
			errs.addf(args[0].at+1, "found %q behind %s, want nothing; write %q", args[0].raw, d.Name, d.String())
		}
	case oneIdentifier:
		d.parseWrapper(args, end, &errs)
	case rulesAndOptions:
		d.Limit.Kind = known.kind
		d.parseLimit(known, args, end, &errs)
	}
	if err := errs.err(); err != nil {
		return Directive{}, err
	}
	return d, nil
}

// cutRemark reports a remark at the end of the line and drops it.
func cutRemark(args []field, errs *Errors) []field {
	for i, f := range args {
		if f.name == "" && (strings.HasPrefix(f.raw, "//") || strings.HasPrefix(f.raw, "/*") || strings.HasPrefix(f.raw, "#")) {
			errs.addf(f.at+1, "found a remark (%q) behind the directive, want the line to end; write it as a comment of its own", f.raw)
			return args[:i]
		}
	}
	return args
}

func (d *Directive) parseWrapper(args []field, end int, errs *Errors) {
	switch {
	case len(args) == 0:
		errs.addf(end+1, "wrapper has no name, want a Go identifier; write %q", d.String()+" LimitedOrders")
	case len(args) > 1:
		errs.addf(args[1].at+1, "found %q behind the wrapper's name, want nothing", args[1].raw)
	case !token.IsIdentifier(args[0].raw) || args[0].raw == "_":
		errs.addf(args[0].at+1, "wrapper's name %q is not a Go identifier, want one such as LimitedOrders", args[0].raw)
	default:
		d.Wrapper = args[0].raw
		d.Columns["wrapper"] = args[0].at + 1
	}
}

func (d *Directive) parseLimit(known directive, args []field, end int, errs *Errors) {
	var at []int // columns of the rules
	broken := false
	for _, f := range args {
		switch {
		case f.name != "":
			d.parseOption(known, f, errs)
		default:
			r, fault := parseRule(f.raw)
			if fault != nil {
				errs.addf(f.column(fault.at), "%s", fault.msg)
				broken = true
				continue
			}
			at = append(at, f.at+1)
			d.Limit.Rules = append(d.Limit.Rules, r)
		}
	}
	if len(at) > 0 {
		d.Columns["rules"] = at[0]
	} else if !broken {
		errs.addf(end+1, "%s has no rules, want one or more count,window; write %q", d.Name, Namespace+d.Name+" 10,1s")
	}
	for _, f := range checkRules(d.Limit.Rules, d.Limit.Algorithm) {
		errs.addf(at[f.at], "%s", f.msg)
	}
	for _, need := range known.needs {
		if _, ok := d.Columns[need]; !ok {
			o, _ := findOption(need)
			errs.addf(end+1, "%s has no %s, want %[2]s=…; write %[2]s=%[3]s", d.Name, need, o.value)
		}
	}
}

func (d *Directive) parseOption(known directive, f field, errs *Errors) {
	o, ok := findOption(f.name)
	switch {
	case !ok:
		errs.addf(f.at+1, "unknown option %q, want %s%s", f.name, list(optionNames), didYouMean(f.name, optionNames))
		return
	case !slices.Contains(o.suits, known.name):
		errs.addf(f.at+1, "option %s does not suit %s, want it on %s only", o.name, known.name, list(o.suits))
		return
	case d.Columns[o.name] != 0:
		errs.addf(f.at+1, "option %s stands twice, want it once", o.name)
		return
	}
	d.Columns[o.name] = f.value.column(0)
	if f.bad {
		return
	}
	if f.value.text == "" {
		errs.addf(f.value.column(0), "option %s has no value, want %[1]s=…; write %[1]s=%s", o.name, o.value)
		return
	}
	if fault := o.parse(&d.Limit, f.value.text); fault != nil {
		errs.addf(f.value.column(fault.at), "%s", fault.msg)
	}
}

// quote returns value as it stands behind name=, in quotes only where it would otherwise read differently.
func quote(value string) string {
	var errs Errors
	got, end, _ := scanValue(value, 0, &errs)
	if len(errs) == 0 && end == len(value) && got.text == value && got.raw == value {
		return value
	}
	if strings.ContainsAny(value, `"\\`) && strconv.CanBackquote(value) {
		return "`" + value + "`"
	}
	return strconv.Quote(value)
}
