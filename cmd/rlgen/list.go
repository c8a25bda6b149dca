package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/rules"
)

// methodJSON is one limited method, as list -json prints it; "rlgen help list" says what each field is.
type methodJSON struct {
	File    string      `json:"file"`
	Line    int         `json:"line"`
	Column  int         `json:"column"`
	Package string      `json:"package"`
	Type    string      `json:"type"`
	Method  string      `json:"method"`
	Deny    string      `json:"deny,omitempty"`
	Limits  []limitJSON `json:"limits"`
}

type limitJSON struct {
	Name       string     `json:"name"`
	File       string     `json:"file"`
	Line       int        `json:"line"`
	Kind       string     `json:"kind"`
	Directive  string     `json:"directive"`
	Rules      []ruleJSON `json:"rules,omitempty"`
	InFlight   int64      `json:"inFlight,omitempty"`
	Per        string     `json:"per,omitempty"`
	Key        string     `json:"key"`
	Algorithm  string     `json:"algorithm,omitempty"`
	BytesPerID int64      `json:"bytesPerID,omitempty"`
	Missing    string     `json:"missing,omitempty"`
	OnFail     string     `json:"onfail"`
	// Wait is a Go duration.
	Wait string `json:"wait,omitempty"`
	// Prefetch is a Go duration.
	Prefetch string `json:"prefetch,omitempty"`
	// Ban is a Go duration, and After how many denials bring it.
	Ban   string `json:"ban,omitempty"`
	After int64  `json:"after,omitempty"`
	// Lease is a Go duration.
	Lease    string `json:"lease,omitempty"`
	Segments int64  `json:"segments,omitempty"`
	Charge   string `json:"charge,omitempty"`
	Mode     string `json:"mode,omitempty"`
	Plan     string `json:"plan,omitempty"`
	// Override is what -overrides has for the limit.
	Override *overrideJSON `json:"override,omitempty"`
}

type ruleJSON struct {
	Count int64 `json:"count"`
	// Window is a Go duration.
	Window string `json:"window"`
}

// list prints every limited method.
func (c *command) list(ctx context.Context, args []string) int {
	c = c.plain()
	f := c.flags("rlgen list", "rlgen list [-json|-markdown] [-overrides file|redis] [flags] [packages]")
	f.BoolVar(&f.json, "json", false, "print a JSON array, as rlgen help list says")
	markdown := f.Bool("markdown", false, "print Markdown, a table for each package")
	overrides := f.withOverrides("print beside each limit what a `file` of overrides makes of it")
	cfg, code, ok := c.parse(f, args)
	if !ok {
		return code
	}
	if f.json && *markdown {
		fmt.Fprintln(c.stderr, "rlgen: found -json and -markdown, want one of them")
		return exitUsage
	}
	r, code := c.load(ctx, cfg)
	if r == nil {
		return code
	}
	overridden, wrong := c.resolve(ctx, overrides, r.Methods)
	if wrong != exitOK {
		return wrong
	}
	methods := make([]methodJSON, 0, len(r.Methods))
	for _, m := range r.Methods {
		method := describe(cfg.Dir, m)
		method.override(overridden[m.Policy])
		methods = append(methods, method)
	}
	switch {
	case f.json:
		enc := json.NewEncoder(c.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		if err := enc.Encode(methods); err != nil {
			return c.fail(err)
		}
	case *markdown:
		c.printMarkdown(methods, len(overrides.from) > 0)
	default:
		c.printMethods(methods)
	}
	return code
}

func describe(dir string, m gen.Method) methodJSON {
	p := m.Policy
	out := methodJSON{File: seenFrom(dir, m.Pos.Filename), Line: m.Pos.Line, Column: m.Pos.Column, Package: p.Package, Type: p.Type, Method: p.Method}
	for i, l := range p.Limits {
		limit := limitJSON{
			Name:      p.Name(i),
			File:      seenFrom(dir, m.Limits[i].Filename),
			Line:      m.Limits[i].Line,
			Kind:      l.Kind.String(),
			Directive: rules.Namespace + l.String(),
			Key:       p.KeyTemplate(i),
			OnFail:    l.OnFail.String(),
		}
		if l.Kind.Holds() {
			limit.hold(&l)
		} else {
			limit.Algorithm = l.Algorithm.String()
			limit.BytesPerID = bytesPerID(p, i)
		}
		if l.Charge != rules.ChargeAlways {
			limit.Charge = l.Charge.String()
		}
		if l.Mode != rules.Enforce {
			limit.Mode = l.Mode.String()
		}
		limit.Plan = l.Plan
		if l.Deny == rules.DenyZero {
			out.Deny = l.Deny.String()
		}
		if l.Wait > 0 {
			limit.Wait = l.Wait.String()
		}
		if l.Prefetch > 0 {
			limit.Prefetch = l.Prefetch.String()
		}
		if l.Ban > 0 {
			limit.Ban, limit.After = l.Ban.String(), l.After
		}
		if l.Whose() != rules.Global {
			limit.Missing = l.Missing.String()
		}
		for _, r := range l.Rules {
			limit.Rules = append(limit.Rules, ruleJSON{Count: r.Count, Window: r.Window.String()})
		}
		out.Limits = append(out.Limits, limit)
	}
	return out
}

// seenFrom is a file as seen from a directory, with slashes, if it can be.
func seenFrom(dir, file string) string {
	rel, err := filepath.Rel(dir, file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}

// width is how many columns a line of text has at most, where it can be broken.
const width = 80

// printMethods prints for each method a line, and below it for each limit what it is, its key, and what becomes of it.
func (c *command) printMethods(methods []methodJSON) {
	for i, m := range methods {
		if i > 0 {
			fmt.Fprintln(c.stdout)
		}
		for _, line := range wrap(fmt.Sprintf("%s:%d: %s.%s%s", m.File, m.Line, m.Type, m.Method, m.denial()), width) {
			fmt.Fprintln(c.stdout, line)
		}
		for _, l := range m.Limits {
			c.printLimit(l)
		}
	}
}

func (c *command) printLimit(l limitJSON) {
	for i, line := range wrap(strings.TrimPrefix(l.Directive, rules.Namespace), width-6) {
		indent := "  "
		if i > 0 {
			indent = "      "
		}
		fmt.Fprintf(c.stdout, "%s%s\n", indent, line)
	}
	fmt.Fprintf(c.stdout, "      key     %s\n", l.Key)
	if l.Lease != "" {
		fmt.Fprintf(c.stdout, "      holds   %s\n", l.holding())
	} else {
		fmt.Fprintf(c.stdout, "      counts  %s, %s\n", l.Algorithm, l.size())
	}
	if text := chargeText[l.Charge]; text != "" {
		fmt.Fprintf(c.stdout, "      charges %s\n", text)
	}
	if l.Prefetch != "" {
		fmt.Fprintf(c.stdout, "      ahead   by %s at most, where a process is called often\n", l.Prefetch)
	}
	if l.Ban != "" {
		fmt.Fprintf(c.stdout, "      bans    for %s, after %d denials\n", l.Ban, l.After)
	}
	if l.Wait != "" {
		fmt.Fprintf(c.stdout, "      waits   %s\n", l.waiting())
	}
	fmt.Fprintf(c.stdout, "      else    %s\n", strings.Join(l.otherwise(), "; "))
	if o := l.Override; o != nil {
		for i, line := range wrap(o.text()+", by "+o.At, width-14) {
			fmt.Fprintf(c.stdout, "      %-7s %s\n", []string{"now", ""}[min(i, 1)], line)
		}
	}
}

// denial says what a denied call of the method returns, if that is not an error.
func (m methodJSON) denial() string {
	if m.Deny == rules.DenyZero.String() {
		return ", zero values if denied"
	}
	return ""
}

// wrap breaks a text at spaces into lines of at most so many bytes, words that are longer apart.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Split(text, " ") {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// size says how much memory the limit takes.
func (l limitJSON) size() string {
	switch n := l.BytesPerID; {
	case l.Lease != "":
		return "while held"
	case n == 0:
		return "memory not known"
	case l.Kind == rules.Global.String():
		return "at most " + bytesText(n)
	default:
		return "at most " + bytesText(n) + " per id"
	}
}

// bytesText returns a number of bytes with two digits that count.
func bytesText(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1_000_000:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}

// waiting says how long calls wait, and for what.
func (l limitJSON) waiting() string {
	if l.Lease != "" {
		return "for its turn, at most " + l.Wait
	}
	if l.Algorithm == rules.LeakyBucket.String() {
		return "in a queue, at most " + l.Wait
	}
	return "for room, at most " + l.Wait
}

// otherwise says what becomes of calls that the limit cannot count.
func (l limitJSON) otherwise() []string {
	var list []string
	if l.Missing != "" {
		list = append(list, "without identity "+missingText[l.Missing])
	}
	return append(list, "without Redis "+l.withoutRedis())
}

// withoutRedis says what becomes of calls while the store cannot decide.
func (l limitJSON) withoutRedis() string {
	switch {
	case l.Lease == "" || l.OnFail != rules.FailLocal.String():
		return onFailText[l.OnFail]
	case l.InFlight > 0:
		return "a share for each instance"
	}
	return "one call in each instance"
}

// hold writes what a limit that holds something says of that.
func (l *limitJSON) hold(from *rules.Limit) {
	l.InFlight, l.Segments = from.Count, from.Segments
	l.Lease = cmp.Or(from.Lease, rules.DefaultLease).String()
	if from.Kind == rules.Concurrency {
		l.Per = from.Per.String()
	}
}

// holding says what calls hold.
func (l limitJSON) holding() string {
	text := "one call"
	if l.InFlight > 0 {
		text = fmt.Sprintf("at most %d in flight", l.InFlight)
	}
	if l.Segments > 0 {
		text += fmt.Sprintf(" in each of %d segments", l.Segments)
	} else if l.Missing != "" {
		text += " per id"
	}
	return text + ", leases of " + l.Lease
}

// What becomes of a call, by the words of the options.
var (
	missingText = map[string]string{"deny": "denied", "allow": "allowed"}
	chargeText  = map[string]string{"success": "calls that succeed", "error": "calls that fail"}
	onFailText  = map[string]string{"local": "counted by each instance", "open": "allowed", "closed": "denied"}
)
