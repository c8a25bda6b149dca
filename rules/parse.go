package rules

import (
	"fmt"
	"regexp"
	"strings"
)

// Parse reads one directive. Comment is the whole text of a // comment, "//ratelimit:user 10,1s"; a carriage
// return at its end is ignored. Any error is an [Errors] that has every problem of the line, and comes with the
// zero Directive.
func Parse(comment string) (Directive, error) {
	exact, near := Match(comment)
	if near != nil {
		return Directive{}, Errors{near}
	}
	if !exact {
		return Directive{}, Errors{{Column: 1, Msg: fmt.Sprintf("found %q, want a directive, such as %s", comment, directives[0].example())}}
	}
	return parseExact(comment)
}

// Column returns the 1-based byte column, in the text of a comment that is a directive, of the byte at offset
// in the value of an option. It sees through quotes and the escapes between them. It returns 0 if the comment does not
// have the option.
func Column(comment, option string, offset int) int {
	if !isExact(comment) {
		return 0
	}
	var ignored Errors
	for _, f := range splitFields(comment, nameEnd(comment), &ignored) {
		if f.name == option {
			return f.value.column(offset)
		}
	}
	return 0
}

// parseExact reads a comment that isExact.
func parseExact(comment string) (Directive, error) {
	p := line{text: strings.TrimSuffix(comment, "\r")}
	p.parse()
	if err := p.errs.err(); err != nil {
		return Directive{}, err
	}
	return p.d, nil
}

// A line is a directive that is being read.
type line struct {
	text   string
	known  directive
	d      Directive
	rules  []field // where d.Limit.Rules stand
	fields []field // behind the name
	lost   bool    // something that may be meant as a rule is reported
	errs   Errors
}

// failf reports a problem that begins at an offset of the line, and returns it for its mend.
func (p *line) failf(at int, format string, args ...any) *Error {
	e := &Error{Column: at + 1, Msg: fmt.Sprintf(format, args...)}
	p.errs = append(p.errs, e)
	return e
}

// replace is the mend of fields: another text in their place.
func replace(fields []field, text string) *Edit {
	return &Edit{Start: fields[0].at, End: fields[len(fields)-1].end(), Text: text}
}

// without is the mend that drops a field and the blanks before it.
func (p *line) without(f field) *Edit {
	return &Edit{Start: len(strings.TrimRight(p.text[:f.at], " \t")), End: f.end()}
}

// span returns the text of adjacent fields, with what stands between them.
func (p *line) span(fields []field) string {
	return p.text[fields[0].at:fields[len(fields)-1].end()]
}

func (p *line) parse() {
	end := nameEnd(p.text)
	name := p.text[len(Namespace):end]
	known, ok := findDirective(name)
	if width, odd := oddRune(p.text[end:]); !ok && width > 0 {
		p.errs.odd(p.text, end, width, odd)
		return
	}
	if !ok {
		hint := didYouMean(name, directiveNames)
		if hint == "" {
			hint = "; to count by anything else write //ratelimit:key 10,1s by=req.Customer"
		}
		p.failf(len(Namespace), "unknown directive %q, want %s%s", name, list(directiveNames), hint)
		return
	}
	if !atBlank(p.text, end) && known.form == formNothing {
		p.failf(end, "found %q right behind %s, want nothing; write %q", p.text[end:], name, known.example())
		return
	}
	if !atBlank(p.text, end) {
		p.failf(end, "found %q right behind %s, want a space, as in %q", p.text[end:], name, known.example()).mend = p.separate(end)
		return
	}
	p.known = known
	p.d = Directive{Name: name, Columns: map[string]int{}}
	args := splitFields(p.text, end, &p.errs)
	if len(p.errs) > 0 {
		return // what cannot be split is not judged either
	}
	args = p.cutRemark(args)
	p.fields = args
	switch known.form {
	case formNothing:
		if len(args) > 0 {
			p.failf(args[0].at, "found %q behind %s, want nothing; write %q", p.span(args), name, known.example())
		}
	case formWrapper:
		p.parseWrapper(args, end)
	case formRules, formCount, formOptions:
		p.parseLimit(args, end)
	}
}

// nameEnd returns the offset behind the name of the directive that text begins with.
func nameEnd(text string) int {
	end := len(Namespace)
	for end < len(text) && (isNameByte(text[end]) || text[end] >= 0x80 && !atBlank(text, end)) {
		end++
	}
	return end
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// remark finds where a remark begins, in what is not an option.
var remark = regexp.MustCompile(`^[#;]|^[-–—]+$|//|/\*`)

// cutRemark reports a remark at the end of the line, and drops it.
func (p *line) cutRemark(args []field) []field {
	for i, f := range args {
		at := remark.FindStringIndex(f.raw)
		if f.name != "" || at == nil {
			continue
		}
		p.remark(f.at + at[0])
		if at[0] > 0 {
			args[i].raw = f.raw[:at[0]]
			i++
		}
		return args[:i]
	}
	return args
}

// remark reports what stands behind the directive from an offset on.
func (p *line) remark(at int) {
	text := strings.TrimRight(p.text[at:], " \t")
	cut := &Edit{Start: len(strings.TrimRight(p.text[:at], " \t")), End: len(p.text), Above: remarkLine(text)}
	if isExact(text) {
		p.failf(at, "found the directive %q behind another, want each on a line of its own", text).mend = cut
		return
	}
	if _, near := Match(cut.Above); near != nil {
		cut = nil
	}
	p.failf(at, "found the remark %q behind the directive, want the line to end; write the remark on a line of its own", text).mend = cut
}

// remarkLine returns a remark as a line of a doc comment, empty if it is none.
func remarkLine(text string) string {
	if isExact(text) {
		return text
	}
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimLeft(text, "/*#;-–— \t"), "*/"))
	if text == "" {
		return ""
	}
	return "// " + text
}

// separate is the mend of a directive whose arguments are not apart from its name, from an offset on; nil if what comes of it
// is no directive.
func (p *line) separate(end int) *Edit {
	text := strings.TrimLeft(p.text[end:], ",:=/|(@")
	if strings.HasPrefix(p.text[end:], "(") {
		text = strings.TrimSuffix(text, ")")
	}
	if _, err := parseExact(p.text[:end] + " " + text); err != nil {
		return nil
	}
	return &Edit{Start: end, End: len(p.text), Text: " " + text}
}

// parseLimit reads the arguments of a directive that counts: rules, then options.
func (p *line) parseLimit(args []field, end int) {
	p.d.Limit.Kind = p.known.kind
	for i := p.parseQuantity(args); i < len(args); {
		if n := p.parseSpaced(args[i:]); n > 0 {
			i += n
		} else if args[i].name != "" {
			p.parseOption(args[i])
			i++
		} else {
			i += p.stray(args[i:])
		}
	}
	p.checkAlgorithm()
	switch p.known.form {
	case formRules:
		p.checkRules(end)
	case formCount:
		p.checkCount(end)
	}
	p.checkIdentity()
	for _, need := range p.known.needs {
		if o, _ := findOption(need); p.d.Columns[need] == 0 {
			p.failf(end, "%s", lacks(p.known, o))
		}
	}
}

// parseQuantity reads what args begin with before the options, and returns how many of args it takes.
func (p *line) parseQuantity(args []field) int {
	switch p.known.form {
	case formCount:
		return p.parseInFlight(args)
	case formOptions:
		return p.refuseRules(args)
	}
	return p.parseRules(args)
}

// parseRules reads the rules that args begin with, and returns how many of args they take.
func (p *line) parseRules(args []field) int {
	for i := 0; i < len(args); {
		f := args[i]
		if f.name != "" {
			return i
		}
		r, fault := parseRule(f.raw)
		n, mend := joinRule(args[i:])
		switch {
		case fault == nil:
			p.d.Limit.Rules = append(p.d.Limit.Rules, r)
			p.rules = append(p.rules, f)
			i++
		case n > 0:
			p.failf(f.at, "found spaces in the rule %q, want none; write %q", p.span(args[i:i+n]), mend).mend = replace(args[i:i+n], mend)
			p.lost = true
			i += n
		case isRuleLike(f.raw):
			found := p.failf(f.at+fault.at, "%s", fault.msg)
			if fault.better != "" {
				found.mend = replace(args[i:i+1], fault.better)
			}
			p.lost = true
			i++
		default:
			return i
		}
	}
	return len(args)
}

// isRuleLike reports whether what is not a rule was probably meant to be one.
func isRuleLike(raw string) bool {
	return digits(strings.TrimLeft(raw, "+-.,/")) > 0 || strings.Contains(raw, ",")
}

// joinRule reads a rule that is written with spaces, "10, 1s" or "10 per 1s": how many of args it takes, and
// how it is written without. If args do not begin with one, n is 0.
func joinRule(args []field) (n int, mend string) {
	joined := ""
	for i, f := range args[:min(5, len(args))] {
		if _, fault := parseRule(f.raw); f.name != "" || fault == nil {
			break // what comes next is whole
		}
		switch f.raw {
		case "per", "every", "each", "in", "a", "an":
			joined += ","
		case "requests", "request", "calls", "call", "times":
		default:
			joined += f.raw
		}
		for _, text := range []string{joined, args[0].raw + "," + f.raw} {
			r, fault := parseRule(text)
			switch {
			case i == 0:
			case fault == nil:
				return i + 1, r.String()
			case fault.better != "":
				return i + 1, fault.better
			}
		}
	}
	return 0, ""
}

// checkAlgorithm reports the options that the limit's algorithm does not have.
func (p *line) checkAlgorithm() {
	for _, o := range options {
		column := p.d.Columns[o.name]
		if column != 0 && !o.has(&p.d.Limit) {
			p.errs.addf(column, "%s", alien(o, p.d.Limit.Algorithm))
		} else if why := o.clash(&p.d.Limit, p.has); column != 0 && why != "" {
			p.errs.addf(column, "%s", why)
		}
	}
}

// has reports whether the line has an option, or the limit that it changes.
func (p *line) has(name string) bool { return p.d.Columns[name] != 0 || p.d.Limit.has(name) }

// checkRules reports what is wrong with the rules together.
func (p *line) checkRules(end int) {
	if len(p.rules) == 0 && !p.lost {
		p.failf(end, "directive %s has no rules, want one or more as count,window; write %q", p.known.name, p.known.example())
	}
	if len(p.rules) == 0 {
		return
	}
	p.d.Columns["rules"] = p.rules[0].at + 1
	var texts []string
	for _, f := range p.rules {
		texts = append(texts, f.raw)
	}
	for _, f := range checkRules(&p.d.Limit, texts) {
		found := p.failf(p.rules[f.at].at, "%s", f.msg)
		if f.extra {
			found.mend = p.without(p.rules[f.at])
		}
	}
}

func (p *line) parseOption(f field) {
	o, ok := findOption(f.name)
	switch {
	case !ok:
		p.failf(f.at, "unknown option %q, want one that \"rlgen help options\" has%s", f.name, didYouMean(f.name, optionNames))
		return
	case !o.suit(p.known.name):
		p.failf(f.at, "%s", unsuited(o, p.known.name))
		return
	case p.d.Columns[o.name] != 0:
		p.again(f, o.name)
		return
	}
	p.d.Columns[o.name] = f.value.column(0)
	if f.value.text == "" {
		p.failf(f.value.at, "option %s has no value, want one; write %s", o.name, o.pair(o.example))
		return
	}
	if fault := o.parse(&p.d.Limit, f.value.text); fault != nil {
		p.errs = append(p.errs, &Error{Column: f.value.column(fault.at), Msg: fault.msg})
		if o.name == "algo" {
			p.d.Limit.Algorithm = unknownAlgorithm // by which nothing else is judged
		}
	}
}

// again reports an option that stands there already; where it says the same, it can go.
func (p *line) again(f field, name string) {
	found := p.failf(f.at, "found option %s again, want it once; remove one", name)
	for _, first := range p.fields {
		if first.at < f.at && first.name == name {
			if first.value.text == f.value.text {
				found.mend = p.without(f)
			}
			return
		}
	}
}

// parseSpaced reports an option that is written with spaces, "when=a == b" or "by = a", and returns how many of
// args it takes: 0 if args do not begin with one.
func (p *line) parseSpaced(args []field) int {
	f, taken := args[0], 1
	name, start := f.name, f.at+len(f.name)+len("=")
	if name == "" && len(args) > 1 && strings.HasPrefix(args[1].raw, "=") {
		name, start = f.raw, args[1].at+len("=")
		if args[1].raw == "=" {
			taken = 2
		}
	}
	o, ok := findOption(name)
	if !ok || f.raw[0] == '"' || f.raw[0] == '`' {
		return 0
	}
	end := taken
	for end < len(args) && !isOption(args[end]) {
		end++
	}
	value, n := p.longest(o, start, args[taken:end])
	if n == 0 {
		return 0
	}
	p.failf(f.at, "found spaces in %q, want name=value without spaces or with the value in quotes; write %s", p.span(args[:taken+n]), o.pair(value)).mend = replace(args[:taken+n], o.pair(value))
	p.d.Columns[o.name] = start + 1
	return taken + n
}

// longest returns the longest value of o that begins at an offset of the line and ends with one of args, and which
// of them that is, counted from 1.
func (p *line) longest(o option, start int, args []field) (value string, n int) {
	const most = 32
	for n := min(len(args), most); n > 0; n-- {
		value := strings.TrimSpace(p.text[start:args[n-1].end()])
		if value != "" && o.parse(new(Limit), value) == nil {
			return value, n
		}
	}
	return "", 0
}

// isOption reports whether f is an option, and not part of a comparison such as a==b.
func isOption(f field) bool {
	_, ok := findOption(f.name)
	return ok && !strings.HasPrefix(f.value.raw, "=")
}

// stray reports what is neither a rule in its place nor an option, and returns how many of args that is.
func (p *line) stray(args []field) int {
	f := args[0]
	p.lost = true
	if r, fault := parseRule(f.raw); fault == nil && p.known.form == formRules {
		p.failf(f.at, "found rule %q behind an option, want the rules first; write %q", f.raw, p.text[:nameEnd(p.text)]+" "+r.String()+" …").mend = p.moveRule(f)
		return 1
	}
	name, value, _ := strings.Cut(f.raw, ":")
	if o, ok := findOption(name); ok {
		given := value != ""
		if !given {
			value = o.example
		}
		found := p.failf(f.at, "found %q, want %s=value; write %s", f.raw, o.name, o.pair(value))
		if given {
			found.mend = replace(args[:1], o.pair(value))
		}
		return 1
	}
	n := 1
	for n < len(args) && !isOption(args[n]) {
		n++
	}
	how := fmt.Sprintf("such as %q", p.known.example())
	if o, ok := findOption(p.before(f).name); ok && o.spaces {
		how = fmt.Sprintf("and a value with spaces in quotes, such as %s=\"a == b\"", o.name)
	}
	p.failf(f.at, "found %q, want %soptions as name=value, %s", p.span(args[:n]), p.known.form.before(), how)
	return n
}

// before returns the field before another one, the zero field if there is none.
func (p *line) before(f field) field {
	var last field
	for _, other := range p.fields {
		if other.at < f.at {
			last = other
		}
	}
	return last
}

// moveRule is the mend that puts a rule behind the last of those that stand in their place.
func (p *line) moveRule(f field) *Edit {
	end := nameEnd(p.text)
	if n := len(p.rules); n > 0 {
		end = p.rules[n-1].end()
	}
	between := strings.TrimRight(p.text[end:f.at], " \t")
	return &Edit{Start: end, End: f.end(), Text: " " + f.raw + between}
}
