package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/live"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// changeJSON is what has been done to a limit for an id.
type changeJSON struct {
	Done string `json:"done"`
	// Idle says that there was nothing to do.
	Idle   bool         `json:"idle,omitempty"`
	DryRun bool         `json:"dryRun,omitempty"`
	Method string       `json:"method"`
	ID     string       `json:"id"`
	Limit  string       `json:"limit"`
	Key    string       `json:"key"`
	Before standingJSON `json:"before"`
	After  standingJSON `json:"after"`
}

// change is one kind of write.
type change struct {
	done, do string                       // as it is said
	hint     string                       // what a limit needs for it
	idle     func(s *standingJSON) string // says of how a limit stands that there is nothing to do; nil where there always is
	suits    func(l *rules.Limit) bool
	fits     func(s *ratelimit.Standing) error // says what does not fit a limit that suits; nil where all does
	to       func(ctx context.Context, g *ratelimit.Guard, id ratelimit.ID, limits []string) error
}

func isRate(l *rules.Limit) bool { return !l.Kind.Holds() }

func (o *operating) reset(ctx context.Context) (int, error) {
	return o.change(ctx, o.Args(), change{
		"reset", "reset", "; a lock and a concurrency are not reset", nil, isRate, nil,
		func(ctx context.Context, g *ratelimit.Guard, id ratelimit.ID, limits []string) error {
			return g.Reset(ctx, id, limits...)
		},
	})
}

func (o *operating) grant(ctx context.Context) (int, error) {
	args, last := o.split()
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 1 {
		return exitUsage, argument("found %q, want how many permits to give back, 1 or more, behind the ids: rlgen grant Create user=42 5", last)
	}
	return o.change(ctx, args, change{
		fmt.Sprintf("granted %d", n), fmt.Sprintf("grant %d", n), "; a queue, a lock and a concurrency are granted nothing", full,
		func(l *rules.Limit) bool { return isRate(l) && !l.Queues() },
		func(s *ratelimit.Standing) error { return grantable(s, n) },
		func(ctx context.Context, g *ratelimit.Guard, id ratelimit.ID, limits []string) error {
			return g.Grant(ctx, id, n, limits...)
		},
	})
}

// full says of a limit that has all of its permits that nothing is granted.
func full(s *standingJSON) string {
	for _, r := range s.Rules {
		if r.Remaining < r.Capacity {
			return ""
		}
	}
	return "nothing to grant, for all is left"
}

// grantable says why a limit cannot be granted n permits.
func grantable(s *ratelimit.Standing, n int64) error {
	most := int64(0)
	for _, r := range s.Rules {
		most = max(most, r.Capacity)
	}
	if n > most {
		return argument("limit %q: found a grant of %d, want 1 to %d, which is all that it ever has; rlgen reset gives that back", s.Name, n, most)
	}
	return nil
}

func (o *operating) ban(ctx context.Context) (int, error) {
	args, last := o.split()
	d, err := rules.ParseBan(last)
	if err != nil {
		return exitUsage, argument("for how long to ban: %w, behind the ids: rlgen ban Login ip=192.0.2.1 15m", err)
	}
	return o.banFor(ctx, args, d, "banned for "+last, "ban for "+last, nil)
}

func (o *operating) unban(ctx context.Context) (int, error) {
	return o.banFor(ctx, o.Args(), 0, "unbanned", "unban", func(s *standingJSON) string {
		if s.Banned != "" {
			return ""
		}
		return "not banned, and the denials " + o.would("are forgotten", "be forgotten")
	})
}

func (o *operating) banFor(ctx context.Context, args []string, d time.Duration, done, do string, idle func(*standingJSON) string) (int, error) {
	return o.change(ctx, args, change{
		done, do, "; a limit bans that has ban= and after= in its directive", idle,
		func(l *rules.Limit) bool { return isRate(l) && l.Ban > 0 }, nil,
		func(ctx context.Context, g *ratelimit.Guard, id ratelimit.ID, limits []string) error {
			return g.Ban(ctx, id, d, limits...)
		},
	})
}

// split tells the last argument from those before it.
func (o *operating) split() (args []string, last string) {
	args = o.Args()
	if len(args) == 0 {
		return nil, ""
	}
	return args[:len(args)-1], args[len(args)-1]
}

// change does something to all limits that suit, for each id, and prints how they stood before and stand after it. It looks at all ids
// before it changes anything. Where Redis then fails, what was done to the ids before is printed.
func (o *operating) change(ctx context.Context, args []string, c change) (int, error) {
	t, err := o.target(args)
	if err != nil {
		return exitUsage, err
	}
	ctx = o.caller(ctx)
	subjects := make([]subject, len(t.ids))
	for i := range t.ids {
		if subjects[i], err = o.subject(ctx, t, i, c); err != nil && !errors.Is(err, live.ErrArgument) {
			return exitFindings, fmt.Errorf("nothing is done, since nobody can say how %s stands: %w", shown(t.names[i]), err)
		} else if err != nil {
			return exitFindings, err
		}
	}
	for i, s := range subjects {
		changes, failed := o.changeOne(ctx, t, s, c)
		if failed != nil {
			err = unreached(failed, t.names[i+1:])
			break
		}
		for _, ch := range changes {
			o.tell(ch)
		}
	}
	if err == nil || len(o.told) > 0 {
		err = errors.Join(err, o.tellAll())
	}
	if err != nil {
		return exitFindings, err
	}
	return exitOK, nil
}

// subject is an id that something is to be done to.
type subject struct {
	id     ratelimit.ID
	name   string
	before []ratelimit.Standing
	limits []string // that suit
}

// subject looks at one id of the target.
func (o *operating) subject(ctx context.Context, t target, i int, c change) (subject, error) {
	s := subject{id: t.ids[i], name: t.names[i]}
	var err error
	if s.before, err = t.Peek(ctx, s.id, o.limits...); err != nil {
		return s, o.wrong(err, t, s.name, "")
	}
	for i := range s.before {
		standing := &s.before[i]
		if !c.suits(standing.Limit) {
			continue
		}
		if c.fits != nil {
			if err := c.fits(standing); err != nil {
				return s, err
			}
		}
		s.limits = append(s.limits, standing.Name)
	}
	if len(s.limits) == 0 || len(o.limits) > 0 && len(s.limits) < len(s.before) {
		return s, argument("no limit of %s by %s can do this%s", t.method, shown(s.name), c.hint)
	}
	return s, nil
}

// changeOne does it for one id.
func (o *operating) changeOne(ctx context.Context, t target, s subject, c change) ([]changeJSON, error) {
	if !o.dry {
		if err := c.to(ctx, t.Guard, s.id, s.limits); err != nil {
			return nil, undecided(o.wrong(err, t, s.name, c.hint), s, c)
		}
	}
	after, err := t.Peek(ctx, s.id, s.limits...)
	switch {
	case err != nil && o.dry:
		return nil, fmt.Errorf("nobody can say how %s stands: %w", shown(s.name), err)
	case err != nil:
		return nil, fmt.Errorf("%s is %s, and nobody can say how it stands now: %w", shown(s.name), c.done, err)
	}
	var changes []changeJSON
	for _, now := range after {
		was := s.before[slices.IndexFunc(s.before, func(b ratelimit.Standing) bool { return b.Name == now.Name })]
		ch := changeJSON{
			Done: o.would(c.done, c.do), DryRun: o.dry, Method: t.method, ID: s.name, Limit: now.Name, Key: now.Key, Before: standing(&was), After: standing(&now),
		}
		if c.idle != nil {
			idle := c.idle(&ch.Before)
			ch.Idle, ch.Done = idle != "", cmp.Or(idle, ch.Done)
		}
		changes = append(changes, ch)
	}
	return changes, nil
}

// undecided says of an error whether it may have been done all the same: wholly, or by those of several limits that Redis has in several places.
func undecided(err error, s subject, c change) error {
	var failed *store.Error
	switch {
	case errors.Is(err, live.ErrArgument):
		return err
	case errors.As(err, &failed) && failed.Class == store.Indeterminate:
		return fmt.Errorf("nobody knows whether Redis has done this (%s) to %s; rlgen peek says how it stands: %w", c.do, shown(s.name), err)
	case len(s.limits) > 1:
		return fmt.Errorf("%s is not %s, or not by all limits; rlgen peek says how they stand: %w", shown(s.name), c.done, err)
	}
	return fmt.Errorf("%s is not %s: %w", shown(s.name), c.done, err)
}

// unreached adds to an error whom nothing is done to since.
func unreached(err error, names []string) error {
	if len(names) == 0 {
		return err
	}
	var texts []string
	for _, name := range names {
		texts = append(texts, shown(name))
	}
	return fmt.Errorf("%w; nothing is done to %s", err, strings.Join(texts, " "))
}

func (ch changeJSON) print(w io.Writer) {
	behind := ""
	if ch.Idle {
		behind = ":"
	}
	fmt.Fprintf(w, "%s%s %s of %s %s%s\n", ch.Done, behind, ch.Limit, ch.Method, shown(ch.ID), ch.After.notes())
	for i, r := range ch.Before.Rules {
		line := fmt.Sprintf("%d left", r.Remaining)
		if !ch.DryRun && i < len(ch.After.Rules) {
			line += fmt.Sprintf(" before, %d now", ch.After.Rules[i].Remaining)
		}
		fmt.Fprintf(w, "      %-12s %s\n", rules.Rule{Count: r.Count, Window: must(r.Window)}, line)
	}
	switch before, after := ch.Before.Banned, ch.After.Banned; {
	case before == "" && after == "":
	case ch.DryRun:
		fmt.Fprintf(w, "      %-12s %s\n", "banned", banText(before))
	default:
		fmt.Fprintf(w, "      %-12s %s before, %s now\n", "banned", banText(before), banText(after))
	}
}

func banText(banned string) string {
	if banned == "" {
		return "not"
	}
	return "for " + text(must(banned))
}

// mostShown is how much of a text of an override is printed as text, in bytes.
const mostShown = 4096

// brief is a text of an override as quoted has it, and the beginning of one that nobody reads.
func brief(text string) string { return quoted(rules.Brief(text, mostShown)) }

// hashJSON is what the hash of overrides has of one limit.
type hashJSON struct {
	Name string `json:"name"`
	Text string `json:"text"`
	// Limits are those that it changes, by the method that they stand over.
	Limits []overriddenJSON `json:"limits,omitempty"`
}

type overriddenJSON struct {
	Method string `json:"method"`
	// Directive is what holds then; empty where the limit is off.
	Directive string `json:"directive,omitempty"`
}

// overrodeJSON is what has been done to an entry of the hash.
type overrodeJSON struct {
	Done   string `json:"done"`
	DryRun bool   `json:"dryRun,omitempty"`
	Name   string `json:"name"`
	// Before and After are the texts, none where there is no entry.
	Before *string `json:"before,omitempty"`
	After  *string `json:"after,omitempty"`
	// Holds is the text that holds in place of this one, or of none, and By is where it stands. Directive says that it is the directive that holds.
	Holds     string `json:"holds,omitempty"`
	By        string `json:"by,omitempty"`
	Directive bool   `json:"directive,omitempty"`
}

// override shows the hash of overrides, or changes entries of it.
func (o *operating) override(ctx context.Context) (int, error) {
	args := o.Args()
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch {
	case verb == "" || verb == "list" && len(args) == 1:
		return o.listOverrides(ctx)
	case verb == "set" && len(args) >= 3:
		return o.setOverrides(ctx, args[1:])
	case verb == "remove" && len(args) >= 2:
		return o.removeOverrides(ctx, args[1:])
	}
	near := ""
	if s := rules.Suggest(verb, []string{"list", "set", "remove"}); s != "" && s != verb {
		near = fmt.Sprintf("; did you mean %s?", s)
	}
	return exitUsage, argument("found %q, want list, set name text (rlgen override set Create/user 20,1s mode=shadow) or remove name%s", strings.Join(args, " "), near)
}

func (o *operating) listOverrides(ctx context.Context) (int, error) {
	layers, err := o.session.Read(ctx)
	if err != nil {
		return exitFindings, err
	}
	overridden, fault := layers.Resolve()
	for _, set := range layers.Hash() {
		entry := hashJSON{Name: set.Name, Text: set.Text}
		entry.Limits = overriddenBy(o.session.Policies(), overridden, entry.Name, set.At.Source)
		o.tell(entry)
	}
	if len(o.told) == 0 && !o.json {
		fmt.Fprintln(o.stdout, "no overrides in Redis")
	}
	err = o.tellAll()
	if fault != nil {
		o.printFault(fault)
		return exitFindings, err
	}
	return exitOK, err
}

func (e hashJSON) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", brief(e.Name), brief(e.Text))
	for _, l := range e.Limits {
		fmt.Fprintf(w, "      %s: %s\n", l.Method, cmp.Or(l.Directive, "off"))
	}
}

func (o *operating) printFault(fault error) {
	fmt.Fprintf(o.stderr, "%v\nrlgen: programs refuse all of the hash, and keep to what they had\n", fault)
}

// overriddenBy are the limits that an entry of a source changes, in the order of the policies.
func overriddenBy(policies []*rules.Policy, overridden map[*rules.Policy]*rules.Overridden, name, source string) (list []overriddenJSON) {
	for _, p := range policies {
		o := overridden[p]
		for i := 0; o != nil && i < len(o.By); i++ {
			if o.By[i] != nil && o.By[i].Name == name && o.By[i].At.Source == source {
				list = append(list, overriddenOf(o, i))
			}
		}
	}
	return list
}

// overriddenOf is what becomes of limit i of a policy.
func overriddenOf(p *rules.Overridden, i int) overriddenJSON {
	out := overriddenJSON{Method: p.Written.Type + "." + p.Written.Method}
	if !p.Off[i] {
		now := p.Policy.Limits[i]
		now.Name = p.Written.Limits[i].Name
		out.Directive = rules.Namespace + now.String()
	}
	return out
}

// setOverrides sets what names and texts say. A text goes on until the name of a limit.
func (o *operating) setOverrides(ctx context.Context, words []string) (int, error) {
	names := o.session.Names()
	var entries []live.Entry
	var text []string
	for i, word := range words {
		if i == 0 || len(text) > 0 && names[word] && word != "off" {
			entries, text = append(entries, live.Entry{Name: word}), nil
			continue
		}
		text = append(text, word)
		entries[len(entries)-1].Text = strings.Join(text, " ")
	}
	for _, e := range entries {
		if strings.TrimSpace(e.Text) == "" {
			return exitUsage, argument("found %q without a text, want one behind each name: rlgen override set Create/user 20,1s Create/ip off", e.Name)
		}
	}
	return o.changeOverrides(ctx, "set", "set", entries)
}

func (o *operating) removeOverrides(ctx context.Context, names []string) (int, error) {
	var entries []live.Entry
	for _, name := range names {
		entries = append(entries, live.Entry{Name: name})
	}
	return o.changeOverrides(ctx, "removed", "remove", entries)
}

func (o *operating) changeOverrides(ctx context.Context, done, do string, entries []live.Entry) (int, error) {
	for i, e := range entries {
		if slices.ContainsFunc(entries[:i], func(other live.Entry) bool { return other.Name == e.Name }) {
			return exitUsage, argument("found %q twice, want each name once", e.Name)
		}
	}
	c, err := o.session.Change(ctx, entries, o.dry)
	if err != nil {
		return exitFindings, err
	}
	for _, e := range c.Entries {
		o.tell(o.overrode(e, o.would(done, do)))
	}
	err = o.tellAll()
	switch {
	case c.Fault != nil:
		o.printFault(c.Fault)
	case c.Untold != "":
		fmt.Fprintf(o.stderr, "rlgen: it is done, but programs could not be told, and heed it within their interval: %s\n", c.Untold)
	case c.Told == 0:
		fmt.Fprintf(o.stderr, "rlgen: no program listens on %s: is it another -overrides-key? Those that do not listen heed it within their interval\n", shown(o.session.HashKey()))
	}
	return exitOK, err
}

// elsewhere is where an override stands that is none of the hash; empty if it is, or none.
func (o *operating) elsewhere(by *rules.Override) string {
	if by == nil || by.At.Source == o.session.HashKey() {
		return ""
	}
	return by.At.String()
}

// overrode is what has been done to an entry of the hash.
func (o *operating) overrode(e live.Changed, done string) overrodeJSON {
	one := overrodeJSON{Done: done, DryRun: o.dry, Name: e.Name, By: o.elsewhere(e.By), Directive: e.After == "" && e.By == nil && e.Known}
	if one.By != "" {
		one.Holds = e.By.Text
	}
	if e.Was {
		one.Before = &e.Before
	}
	if e.After != "" {
		one.After = &e.After
	} else if !e.Was {
		one.Done = "nothing"
	}
	return one
}

func (one overrodeJSON) print(w io.Writer) {
	name, was, holds := brief(one.Name), "", ""
	if one.Before != nil {
		was = ", which was " + brief(*one.Before)
	}
	switch {
	case one.By != "":
		holds = fmt.Sprintf("; %s holds, by %s", brief(one.Holds), shown(one.By))
	case one.Directive:
		holds = "; the directive holds"
	}
	switch {
	case one.After != nil:
		fmt.Fprintf(w, "%s %s to %s%s%s\n", one.Done, name, brief(*one.After), was, holds)
	case one.Before != nil:
		fmt.Fprintf(w, "%s %s%s%s\n", one.Done, name, was, holds)
	default:
		fmt.Fprintf(w, "%s has no override in Redis%s\n", name, holds)
	}
}
