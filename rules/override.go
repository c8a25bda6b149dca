package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Override is what is to hold in place of a limit's directive while a program runs.
type Override struct {
	// Name is the limit's, as [Policy.Name] has it, and behind the type where limits of several types have it: "Create/user",
	// "orders.Orders.Create/user". One that a type's directive gives to several methods stands for all of them.
	Name string
	// Text is "off", which lets every call pass the limit, or rules and options as a directive has them: "20,1s 200,1m mode=shadow".
	// What it does not say is as written, but that no permits are taken ahead by a Prefetch which the rules or the wait do not suit.
	Text string
	// At is where that stands.
	At Place
}

// Place is where a text stands that was read from somewhere. The zero Place is not known.
type Place struct {
	// Source is the name of a file, or of what else it was read from.
	Source string
	// Line and Column are 1-based; 0 where the source has none. Column counts bytes.
	Line, Column int
}

// String returns the place as messages have it: "limits.yaml:3:16".
func (p Place) String() string {
	switch {
	case p.Line == 0:
		return p.Source
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.Source, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.Source, p.Line, p.Column)
}

// off is the text of an override that switches a limit off.
const off = "off"

// meansOff says whether a text was probably meant to be off: what YAML has for it, too.
func meansOff(text string) bool {
	switch strings.ToLower(text) {
	case off, "false", "no", "none", "disabled":
		return true
	}
	return false
}

// overridable are the options that overrides may change. The others say what is counted, where, or what generated code does.
var overridable = []string{"burst", "missing", "onfail", "wait", "mode"}

// Overridden is a policy, and what overrides make of it.
type Overridden struct {
	// Written is the policy as it is without them. The limits keep their keys, which are those that it has.
	Written *Policy
	// Policy has each limit at its place, with its name spelled out.
	Policy *Policy
	// Off says which limits let every call pass.
	Off []bool
	// By is what overrides each limit; nil where nothing does.
	By []*Override
}

// Resolve applies overrides to policies, of which each name must mean a limit. Those of a later layer hold in place of earlier ones of the same
// limit. It returns one Overridden for each policy that something overrides. The error is everything that is wrong, one problem
// a line, each with its place, and [MaxProblems] of them at most; then nothing is overridden. The policies are not changed.
func Resolve(policies []*Policy, layers ...[]Override) (map[*Policy]*Overridden, error) {
	r := resolution{names: newLimitNames(policies), all: make(map[*Policy]*Overridden)}
	for _, layer := range layers {
		r.apply(layer)
	}
	for _, p := range policies {
		r.change(r.all[p])
	}
	if len(r.errs) == 0 {
		r.checkShared(policies)
	}
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	return r.all, nil
}

// ErrUnlike is of overrides that leave limits which share a bucket with different numbers.
var ErrUnlike = errors.New("limits that share a bucket are not overridden alike")

// problem is one problem of overrides.
type problem struct {
	text string
	kind error // ErrUnlike, or nil
}

func (p *problem) Error() string { return p.text }
func (p *problem) Unwrap() error { return p.kind }

// Misfits are the names of those overrides that are wrong, each for itself, whatever the others are: most of them at most.
func Misfits(policies []*Policy, overrides []Override, most int) (names []string) {
	known := newLimitNames(policies)
	for i := range overrides {
		r := resolution{names: known, all: make(map[*Policy]*Overridden)}
		r.apply(overrides[i : i+1])
		for _, o := range r.all {
			r.change(o)
		}
		if len(r.errs) == 0 {
			continue
		}
		if names = append(names, overrides[i].Name); len(names) == most {
			return names
		}
	}
	return names
}

// resolution is overrides on their way to the limits that they mean.
type resolution struct {
	names limitNames
	all   map[*Policy]*Overridden
	errs  []error
}

// mostOfProblem is how many bytes of a problem are told, of which a text that somebody has written may be most.
const mostOfProblem = 1000

func (r *resolution) failf(at Place, format string, args ...any) {
	r.fail(at, nil, format, args...)
}

func (r *resolution) fail(at Place, kind error, format string, args ...any) {
	where := ""
	if text := at.String(); text != "" {
		where = text + ": "
	}
	err := &problem{where + Brief(fmt.Sprintf(format, args...), mostOfProblem), kind}
	if n := len(r.errs); n > 0 && r.errs[n-1].Error() == err.Error() {
		return // of a name that stands for several limits
	}
	if len(r.errs) == MaxProblems {
		err.text = where + "and more, which are not told of: mend these first"
	}
	if !r.full() {
		r.errs = append(r.errs, err)
	}
}

// MaxProblems is how many problems of overrides an error tells of.
const MaxProblems = 100

// full says that there are more problems than are told of.
func (r *resolution) full() bool { return len(r.errs) > MaxProblems }

// apply says of each limit that a layer means what overrides it.
func (r *resolution) apply(layer []Override) {
	seen := make(map[limitAt]*Override)
	for i := range layer {
		if r.full() {
			return
		}
		o := &layer[i]
		at, fault := r.names.find(o.Name)
		if fault != "" {
			r.failf(o.At, "%s", fault)
			continue
		}
		if first := seen[at[0]]; first != nil {
			r.failf(o.At, "found limit %q again, which stands at %v as %q, want it once; remove one", o.Name, first.At, first.Name)
			continue
		}
		for _, l := range at {
			seen[l] = o
			r.of(l.policy).By[l.index] = o
		}
	}
}

// of returns what becomes of a policy.
func (r *resolution) of(p *Policy) *Overridden {
	if r.all[p] == nil {
		n := len(p.Limits)
		r.all[p] = &Overridden{Written: p, Off: make([]bool, n), By: make([]*Override, n)}
	}
	return r.all[p]
}

// change makes the policy of o, which may be nil.
func (r *resolution) change(o *Overridden) {
	if o == nil || o.Policy != nil {
		return
	}
	changed := *o.Written
	changed.Limits = slices.Clone(o.Written.Limits)
	o.Policy = &changed
	for i := range changed.Limits {
		l := &changed.Limits[i]
		l.Name = o.Written.Name(i)
		by := o.By[i]
		if by == nil {
			continue
		}
		if o.Off[i] = strings.TrimSpace(by.Text) == off; o.Off[i] {
			continue
		}
		if found := strings.TrimSpace(by.Text); meansOff(found) {
			r.failf(by.At, "limit %q: found %q, want off in small letters, with which every call passes the limit", by.Name, found)
			continue
		}
		override, errs := overridden(*l, by.Text)
		for _, err := range errs {
			r.failf(by.At.behind(err.Column), "limit %q: %s", by.Name, err.Msg)
		}
		*l = override
	}
}

// behind returns the place of a byte, counted from 1, of the text that begins at p.
func (p Place) behind(column int) Place {
	if p.Column > 0 {
		p.Column += column - 1
	}
	return p
}

// checkShared reports limits that share a count, and that overrides leave with different numbers.
func (r *resolution) checkShared(policies []*Policy) {
	first := make(map[string]limitAt) // by key
	for _, p := range policies {
		for i := range p.Limits {
			key := p.KeyTemplate(i)
			if other, ok := first[key]; ok {
				r.checkAlike(limitAt{p, i}, other)
			} else {
				first[key] = limitAt{p, i}
			}
		}
	}
}

func (r *resolution) checkAlike(a, b limitAt) {
	l, byL := r.now(a)
	other, byOther := r.now(b)
	if byL == nil && byOther == nil {
		return
	}
	differ := SameCount(other, l)
	if differ == nil {
		return
	}
	by, unlike := byL, b
	if by == nil {
		by, unlike = byOther, a
	}
	r.fail(by.At, ErrUnlike, "limit %q shares its bucket with %q: %v; override both alike", by.Name, unlike.qualified(), differ)
}

// now returns a limit as it is with its override.
func (r *resolution) now(at limitAt) (*Limit, *Override) {
	o := r.all[at.policy]
	if o == nil || o.Off[at.index] {
		return &at.policy.Limits[at.index], nil
	}
	return &o.Policy.Limits[at.index], o.By[at.index]
}

// overridden returns what a text makes of a limit, or everything that is wrong with it, with columns of the text.
func overridden(l Limit, text string) (Limit, Errors) {
	known, _ := findDirective(l.Kind.String())
	p := line{text: Namespace + known.name + " " + text, known: known}
	end := nameEnd(p.text)
	p.d = Directive{Name: known.name, Limit: l, Columns: map[string]int{}}
	args := splitFields(p.text, end, &p.errs)
	if len(p.errs) == 0 {
		p.fields = p.cutRemark(args)
		p.override(l)
	}
	_ = p.errs.err() // sorts
	for _, err := range p.errs {
		err.Column = max(1, err.Column-end-1)
	}
	if len(p.errs) == 0 {
		p.d.Limit.checkOverridden(&p.errs)
	}
	return p.d.Limit, p.errs
}

// override reads what stands in place of what a limit has.
func (p *line) override(l Limit) {
	if len(p.fields) == 0 {
		p.failf(len(p.text)-1, "found nothing, want off, or %s%s", p.known.form.before(), overridableText())
		return
	}
	p.d.Limit.Rules = nil
	for i := p.parseQuantity(p.fields); i < len(p.fields); {
		f := p.fields[i]
		if n := p.parseSpaced(p.fields[i:]); n > 0 {
			i += n
			continue
		}
		switch _, exists := findOption(f.name); {
		case f.name == "":
			i += p.stray(p.fields[i:])
			continue
		case !exists:
			p.failf(f.at, "unknown option %q, want %s%s%s", f.name, p.known.form.before(), overridableText(), didYouMean(f.name, optionNames))
		case !slices.Contains(overridable, f.name):
			p.failf(f.at, "found option %s, which no override can change, want %s%s; change the directive in the code", f.name, p.known.form.before(), overridableText())
		default:
			p.parseOption(f)
		}
		i++
	}
	if len(p.rules) == 0 && !p.lost {
		p.d.Limit.Rules = l.Rules
	}
	p.checkChanges(&l)
}

// overridableText lists the options that overrides may change.
func overridableText() string { return "the options " + list(overridable) }

// checkChanges reports what does not fit the limit, or what it has counted.
func (p *line) checkChanges(l *Limit) {
	if p.d.Limit.Queues() != l.Queues() && p.d.Columns["wait"] > 0 {
		p.errs.addf(p.d.Columns["wait"], "found option wait on a leaky-bucket without one, which it would make a queue, and a queue cannot read what the bucket has counted; change the directive in the code")
		return
	}
	for _, o := range options {
		if !p.has(o.name) {
			continue
		}
		column := p.d.Columns[o.name]
		if column == 0 {
			column = p.d.Columns["wait"] // with which alone the limit's own options do not go together
		}
		if column == 0 || o.name == "mode" || o.name == "prefetch" {
			continue // a shadow does not wait, and what nobody may take ahead is not taken ahead
		}
		if !o.has(&p.d.Limit) {
			p.errs.addf(column, "%s", alien(o, p.d.Limit.Algorithm))
		} else if why := o.clash(&p.d.Limit, p.has); why != "" {
			p.errs.addf(column, "%s", why)
		}
	}
	p.checkIdentity()
	if len(p.rules) > 0 {
		p.checkRules(0)
	}
	p.d.Limit.suitPrefetch()
}

// checkOverridden reports rules that do not fit the options beside them.
func (l *Limit) checkOverridden(errs *Errors) {
	var texts []string
	for _, r := range l.Rules {
		texts = append(texts, r.String())
	}
	for _, f := range checkRules(l, texts) {
		errs.addf(1, "%s", f.msg)
	}
}

// limitAt is one limit of a policy.
type limitAt struct {
	policy *Policy
	index  int
}

// qualified is the limit's name behind that of its type.
func (l limitAt) qualified() string { return l.policy.Type + "." + l.policy.Name(l.index) }

// limitNames has what each name means.
type limitNames struct {
	short, long map[string][]limitAt
	words       []string // all of them
}

func newLimitNames(policies []*Policy) limitNames {
	n := limitNames{make(map[string][]limitAt), make(map[string][]limitAt), nil}
	for _, p := range policies {
		for i := range p.Limits {
			at := limitAt{p, i}
			n.short[p.Name(i)] = append(n.short[p.Name(i)], at)
			n.long[at.qualified()] = append(n.long[at.qualified()], at)
		}
	}
	for _, of := range []map[string][]limitAt{n.short, n.long} {
		for name := range of {
			n.words = append(n.words, name)
		}
	}
	slices.Sort(n.words)
	return n
}

// SameLimit says whether two names mean the same limit of policies, such as Create/user and orders.Orders.Create/user.
func SameLimit(policies []*Policy, a, b string) bool {
	names := newLimitNames(policies)
	one, fault := names.find(a)
	other, faulty := names.find(b)
	return fault == "" && faulty == "" && one[0] == other[0]
}

// find returns the limits that a name means, all of one type; or what is wrong with it.
func (n *limitNames) find(name string) (at []limitAt, fault string) {
	if at := n.short[name]; len(at) > 0 {
		var types []string
		for _, l := range at {
			if q := l.qualified(); !slices.Contains(types, q) {
				types = append(types, q)
			}
		}
		if len(types) > 1 {
			slices.Sort(types)
			return nil, fmt.Sprintf("limit name %q is that of several types, want one of them: %s", name, list(types))
		}
		return at, ""
	}
	if at := n.long[name]; len(at) > 0 {
		return at, ""
	}
	return nil, fmt.Sprintf("unknown limit %q, want the name of one, as rlgen list has it%s", name, didYouMean(name, n.words))
}
