package rules

import (
	"fmt"
	"strconv"
)

// wantInFlight says what stands behind concurrency.
const wantInFlight = "the number of calls that may be in flight, 1 to 1000000"

// parseInFlight reads the count that args begin with, and returns how many of args it and what is meant as one take.
func (p *line) parseInFlight(args []field) int {
	n := 0
	for n < len(args) && args[n].name == "" && isRuleLike(args[n].raw) {
		n++
	}
	if n == 0 {
		return 0
	}
	first := args[0]
	p.d.Columns["rules"] = first.at + 1
	p.lost = true
	count, found, _ := parseCount(first.raw)
	switch r, fault := parseRule(first.raw); {
	case fault == nil:
		p.failf(first.at, "found rule %q on concurrency, which counts calls in flight and has no window, want %s; write %q", first.raw, wantInFlight, p.text[:nameEnd(p.text)]+" "+strconv.FormatInt(r.Count, 10))
	case found != "" || count < 1 || count > MaxConcurrency:
		p.failf(first.at, "found %q, want %s", first.raw, wantInFlight)
	case n > 1:
		p.failf(args[1].at, "found %q behind the count, want one count; to count calls by time as well write a directive such as %q on a line of its own", p.span(args[1:n]), directives[0].example())
	default:
		p.d.Limit.Count = count
		p.lost = false
	}
	return n
}

// checkCount reports a concurrency without a count.
func (p *line) checkCount(end int) {
	if p.d.Limit.Count == 0 && !p.lost {
		p.failf(end, "directive %s has no count, want %s; write %q", p.known.name, wantInFlight, p.known.example())
	}
}

// refuseRules reports what a lock is given as if it counted, and returns how many of args that is.
func (p *line) refuseRules(args []field) int {
	n := 0
	for n < len(args) && args[n].name == "" && isRuleLike(args[n].raw) {
		n++
	}
	if n > 0 {
		p.lost = true
		p.failf(args[0].at, "found %q on lock, which lets in one call at a time and counts nothing, want options only; for several at a time write //ratelimit:concurrency 10", p.span(args[:n]))
	}
	return n
}

// checkIdentity reports what a limit that holds lacks to know by what, or has where it knows.
func (p *line) checkIdentity() {
	for _, f := range p.d.Limit.checkIdentity() {
		column := p.d.Columns[f.option]
		if column == 0 {
			column = len(Namespace) + 1
		}
		p.errs.addf(column, "%s", f.msg)
	}
}

// oddOption is what is wrong with an option of a limit, beside others of it.
type oddOption struct{ option, msg string }

// checkIdentity finds what a limit that holds lacks to know by what, or has where it knows.
func (l *Limit) checkIdentity() []oddOption {
	var faults []oddOption
	add := func(option, format string, args ...any) {
		faults = append(faults, oddOption{option, fmt.Sprintf(format, args...)})
	}
	switch {
	case l.Kind == Concurrency && l.Per == PerKey && l.By == "":
		add("per", "found per=key without by, want the expression whose text is the key; write per=key by=req.Customer")
	case l.Kind == Concurrency && l.Per == PerGlobal && l.By != "":
		add("by", "found by on a concurrency of all callers together, want per as well, to say what by is; write per=key, per=user or per=ip")
	case l.Kind == Lock && l.Segments > 0 && l.By == "":
		add("segments", "found segments on a lock without by, want the items that share them; write by=req.OrderID")
	}
	if l.Kind.Holds() && l.Missing != MissingDeny && l.Whose() == Global {
		how := "per=user, per=ip or per=key"
		if l.Kind == Lock {
			how = "by and an expression"
		}
		add("missing", "found missing on a %s that has no id to miss, want it with %s", l.Kind, how)
	}
	return faults
}

// checkQuantity says what is wrong with what the limit has of rules and of a count.
func (l *Limit) checkQuantity(known directive) []string {
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	switch {
	case known.form == formRules && len(l.Rules) == 0:
		add("found no rules, want one or more")
	case known.form != formRules && len(l.Rules) > 0:
		add("found rules on %s, want none", known.name)
	}
	switch {
	case known.form == formCount && (l.Count < 1 || l.Count > MaxConcurrency):
		add("found %d calls in flight, want 1 to %d", l.Count, MaxConcurrency)
	case known.form != formCount && l.Count != 0:
		add("found a Count of %d on %s, want it on concurrency only", l.Count, known.name)
	}
	for _, f := range l.checkIdentity() {
		add("%s", f.msg)
	}
	return faults
}
