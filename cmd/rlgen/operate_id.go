package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// target is what an operation is about: a method, and ids that its limits count by.
type target struct {
	*ratelimit.Guard
	method string
	ids    []ratelimit.ID
	names  []string // the same as they were given
}

// target reads the method and the ids. The last of the arguments is left out where it is not of them.
func (o *operating) target(args []string) (t target, err error) {
	if len(args) < 2 {
		return t, argument("found %d arguments, want a method and ids: %s", len(o.args), o.synopsis)
	}
	if t.Guard, err = o.session.Find(args[0]); err != nil {
		return t, err
	}
	if err := o.checkPlan(); err != nil {
		return t, err
	}
	p := t.Policy()
	t.method, t.names = p.Type+"."+p.Method, args[1:]
	for _, arg := range t.names {
		id, err := ratelimit.ParseID(arg)
		if err != nil {
			return t, argument("found the id %q, want %s", arg, strings.Join(forms(p), ", "))
		}
		if _, err := netip.ParseAddr(id.Text); id.Kind == rules.IP && err != nil {
			return t, argument("found the id %q, which is no address, want one such as ip=192.0.2.1", arg)
		}
		if !counts(p, id.Kind) {
			return t, argument("found the id %q, and no limit of %s counts by %v, want %s", arg, t.method, id.Kind, strings.Join(forms(p), ", "))
		}
		if slices.Contains(t.ids, id) {
			return t, argument("found %q twice, want each id once", arg)
		}
		t.ids = append(t.ids, id)
	}
	return t, nil
}

// forms are those of the ids that a policy's limits count by.
func forms(p *rules.Policy) []string {
	texts := map[rules.Kind]string{rules.User: "user=<id>", rules.IP: "ip=<address>", rules.Key: "key=<text>", rules.Global: "global"}
	var list []string
	for _, kind := range []rules.Kind{rules.User, rules.IP, rules.Key, rules.Global} {
		if counts(p, kind) {
			list = append(list, texts[kind])
		}
	}
	return list
}

// counts says whether a limit of p counts by a kind of id.
func counts(p *rules.Policy, kind rules.Kind) bool {
	return slices.ContainsFunc(p.Limits, func(l rules.Limit) bool { return l.Whose() == kind })
}

// checkPlan refuses a plan that no limit of any method knows.
func (o *operating) checkPlan() error {
	var plans []string
	for _, p := range o.session.Policies() {
		for i := range p.Limits {
			if plan := p.Limits[i].Plan; plan != "" && !slices.Contains(plans, plan) {
				plans = append(plans, plan)
			}
		}
	}
	switch slices.Sort(plans); {
	case o.plan == "" || slices.Contains(plans, o.plan):
		return nil
	case len(plans) == 0:
		return argument("-plan: found the plan %q, and no limit is of a plan", o.plan)
	}
	return argument("-plan: found the plan %q, want one of %s", o.plan, strings.Join(plans, ", "))
}

// caller is the context of what is asked for the ids.
func (o *operating) caller(ctx context.Context) context.Context {
	if o.plan != "" {
		ctx = ratelimit.WithPlan(ctx, o.plan)
	}
	return ctx
}

// wrong makes an error that the arguments have brought about one of them: a name, an id or a plan that suits no limit.
func (o *operating) wrong(err error, t target, id, hint string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ratelimit.ErrNoIdentity):
		return argument("%s", found(err))
	case errors.Is(err, ratelimit.ErrMisconfigured) && strings.Contains(err.Error(), "found no limit") && o.plan != "":
		return argument("no limit of %s by %s holds for the plan %q", t.method, shown(id), o.plan)
	case errors.Is(err, ratelimit.ErrMisconfigured) && strings.Contains(err.Error(), "found "):
		return argument("%s (of %s, id %s%s)", found(err), t.method, shown(id), hint)
	}
	return err
}

// found is what an error has found, without the words before it.
func found(err error) string {
	text := err.Error()
	return text[max(0, strings.Index(text, "found ")):]
}

// peekJSON is how an id stands with the limits of a method.
type peekJSON struct {
	Method string         `json:"method"`
	ID     string         `json:"id"`
	Limits []standingJSON `json:"limits"`
}

type standingJSON struct {
	Name      string             `json:"name"`
	Directive string             `json:"directive"`
	Key       string             `json:"key"`
	Mode      string             `json:"mode,omitempty"`
	Off       bool               `json:"off,omitempty"`
	Denies    bool               `json:"denies"`
	Banned    string             `json:"banned,omitempty"`
	Rules     []ruleStandingJSON `json:"rules,omitempty"`
	Held      *heldJSON          `json:"held,omitempty"`
}

type ruleStandingJSON struct {
	Count      int64  `json:"count"`
	Window     string `json:"window"`
	Capacity   int64  `json:"capacity"`
	Used       int64  `json:"used"`
	Remaining  int64  `json:"remaining"`
	RetryAfter string `json:"retryAfter,omitempty"`
	ResetAfter string `json:"resetAfter,omitempty"`
}

type heldJSON struct {
	Count   int64       `json:"count"`
	Held    int64       `json:"held"`
	Waiting int64       `json:"waiting"`
	Token   int64       `json:"token,omitempty"`
	Leases  []leaseJSON `json:"leases"`
}

type leaseJSON struct {
	ID   string `json:"id"`
	Cost int64  `json:"cost"`
	Left string `json:"left"`
}

// peek prints how ids stand. It is exitFindings where a limit would deny a call.
func (o *operating) peek(ctx context.Context) (int, error) {
	t, err := o.target(o.Args())
	if err != nil {
		return exitUsage, err
	}
	var all []peekJSON
	code := exitOK
	for i, id := range t.ids {
		standings, err := t.Peek(o.caller(ctx), id, o.limits...)
		if err := o.wrong(err, t, t.names[i], ""); err != nil {
			return exitFindings, err
		}
		p := peekJSON{Method: t.method, ID: t.names[i]}
		for j := range standings {
			s := standing(&standings[j])
			if s.Denies && s.Mode == "" {
				code = exitFindings
			}
			p.Limits = append(p.Limits, s)
		}
		all = append(all, p)
	}
	for i, p := range all {
		if i > 0 && !o.json {
			fmt.Fprintln(o.stdout)
		}
		o.tell(p)
	}
	return code, o.tellAll()
}

// standing is what JSON has of a limit.
func standing(s *ratelimit.Standing) standingJSON {
	out := standingJSON{
		Name: s.Name, Directive: rules.Namespace + s.Limit.String(), Key: s.Key, Off: s.Off,
		Denies: s.Banned > 0, Banned: duration(s.Banned),
	}
	if s.Shadow {
		out.Mode = rules.Shadow.String()
	}
	for _, r := range s.Rules {
		out.Denies = out.Denies || r.RetryAfter > 0
		out.Rules = append(out.Rules, ruleStandingJSON{
			Count: r.Rule.Count, Window: r.Rule.Window.String(), Capacity: r.Capacity, Used: r.Used, Remaining: r.Remaining,
			RetryAfter: duration(r.RetryAfter), ResetAfter: duration(r.ResetAfter),
		})
	}
	if s.Held != nil {
		held := heldJSON{Count: max(1, s.Limit.Count), Held: s.Held.Cost, Waiting: s.Held.Waiting, Token: s.Held.Token, Leases: []leaseJSON{}}
		for _, l := range s.Held.Leases {
			held.Leases = append(held.Leases, leaseJSON{l.ID, l.Cost, duration(l.Left)})
		}
		out.Denies = held.Held >= held.Count || held.Waiting > 0
		out.Held = &held
	}
	if s.Off {
		out.pass()
	}
	return out
}

// pass makes of how a limit stands that of one which is off: nobody waits for it.
func (s *standingJSON) pass() {
	s.Denies = false
	for i := range s.Rules {
		s.Rules[i].RetryAfter = ""
	}
}

func (p peekJSON) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s\n", p.Method, shown(p.ID))
	for _, s := range p.Limits {
		fmt.Fprintf(w, "  %s%s\n", s.Name, s.notes())
		for _, r := range s.Rules {
			fmt.Fprintf(w, "      %-12s %s\n", rules.Rule{Count: r.Count, Window: must(r.Window)}, r.text())
		}
		if s.Banned != "" {
			fmt.Fprintf(w, "      %-12s for %s\n", "banned", text(must(s.Banned)))
		}
		if s.Held != nil {
			s.Held.print(w)
		}
	}
}

// notes says that a limit denies nothing, and why.
func (s *standingJSON) notes() string {
	notes := ""
	if s.Off {
		notes = ", off by an override"
	}
	if s.Mode != "" {
		notes += ", a shadow: it denies nothing"
	}
	return notes
}

// must is a duration of which duration or String has made a text.
func must(text string) time.Duration {
	d, _ := time.ParseDuration(text)
	return d
}

func (r ruleStandingJSON) text() string {
	line := fmt.Sprintf("%d of %d used, %d left", r.Used, r.Capacity, r.Remaining)
	if r.RetryAfter != "" {
		line += "; next in " + text(must(r.RetryAfter))
	}
	if r.ResetAfter != "" {
		line += "; all of it in " + text(must(r.ResetAfter))
	}
	return line
}

// fewLeases is how many leases are printed as text.
const fewLeases = 10

func (h *heldJSON) print(w io.Writer) {
	line := fmt.Sprintf("%d of %d", h.Held, h.Count)
	if h.Waiting > 0 {
		line += fmt.Sprintf(", %d waiting", h.Waiting)
	}
	if h.Token > 0 {
		line += ", last token " + strconv.FormatInt(h.Token, 10)
	}
	fmt.Fprintf(w, "      %-12s %s\n", "held", line)
	for i, l := range h.Leases {
		if i == fewLeases {
			fmt.Fprintf(w, "      %-12s and %d more\n", "", len(h.Leases)-i)
			break
		}
		fmt.Fprintf(w, "      %-12s %d by %s, for %s unless it is renewed\n", "", l.Cost, shown(l.ID), text(must(l.Left)))
	}
}

// keysJSON is where an id is counted.
type keysJSON struct {
	Method string      `json:"method"`
	ID     string      `json:"id"`
	Limits []limitKeys `json:"limits"`
}

type limitKeys struct {
	Name string    `json:"name"`
	Keys []keyJSON `json:"keys"`
}

type keyJSON struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	TTL   string `json:"ttl,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
}

// keys prints where ids are counted.
func (o *operating) keys(ctx context.Context) (int, error) {
	t, err := o.target(o.Args())
	if err != nil {
		return exitUsage, err
	}
	all := []keysJSON{}
	for i, id := range t.ids {
		limits, err := t.Keys(o.caller(ctx), id, o.limits...)
		if err := o.wrong(err, t, t.names[i], ""); err != nil {
			return exitFindings, err
		}
		of := keysJSON{Method: t.method, ID: t.names[i]}
		for _, l := range limits {
			found, err := o.session.Look(ctx, l.Keys)
			if err != nil {
				return exitFindings, err
			}
			keys := limitKeys{Name: l.Name}
			for _, k := range found {
				key := keyJSON{Key: k.Name, Type: k.Type, Bytes: k.Bytes}
				if k.TTL > 0 {
					key.TTL = k.TTL.String()
				}
				keys.Keys = append(keys.Keys, key)
			}
			of.Limits = append(of.Limits, keys)
		}
		all = append(all, of)
	}
	for _, of := range all {
		o.tell(of)
	}
	return exitOK, o.tellAll()
}

func (of keysJSON) print(w io.Writer) {
	fmt.Fprintf(w, "%s %s\n", of.Method, shown(of.ID))
	for _, l := range of.Limits {
		fmt.Fprintf(w, "  %s\n", l.Name)
		for _, k := range l.Keys {
			fmt.Fprintf(w, "      %s  %s\n", shown(k.Key), k.text())
		}
	}
}

func (k keyJSON) text() string {
	if k.Type == "none" {
		return "not there"
	}
	line := k.Type
	if k.TTL == "" {
		line += ", stays for ever"
	} else {
		line += ", for " + text(must(k.TTL))
	}
	if k.Bytes > 0 {
		line += ", " + bytesText(k.Bytes)
	}
	return line
}
