package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// whom is an id of a method that somebody asks about.
type whom struct {
	Method string `json:"method"`
	Kind   string `json:"kind"`
	ID     string `json:"id"`
}

// find returns who decides the method's calls, and the id.
func (d *Dashboard) find(w whom) (*ratelimit.Guard, ratelimit.ID, error) {
	guard, err := d.limiter.Find(w.Method)
	if err != nil {
		return nil, ratelimit.ID{}, refuse(err)
	}
	text := w.Kind
	if w.Kind != rules.Global.String() {
		text += "=" + w.ID
	}
	id, err := ratelimit.ParseID(text)
	if err != nil {
		return nil, ratelimit.ID{}, refuse(err)
	}
	return guard, id, nil
}

// refusal is an error of what was asked for, rather than of the store.
type refusal struct{ error }

func refuse(err error) error { return refusal{err} }

// errForbidden is what this page does not do, whoever asks.
var errForbidden = refusef("this page only reads, want WithWrites for one that changes things")

func refusef(format string, args ...any) error {
	return refuse(fmt.Errorf("dashboard: "+format, args...))
}

// foundView is how an id stands.
type foundView struct {
	Rules []ruleView `json:"rules"`
}

// ruleView is how one rule of a limit stands; of a concurrency or a lock, how many are in flight.
type ruleView struct {
	Limit     string  `json:"limit"`
	Rule      string  `json:"rule"`
	Count     int64   `json:"count"`
	Remaining int64   `json:"remaining"`
	Reset     float64 `json:"reset"` // s
	Retry     float64 `json:"retry"` // s
	Banned    float64 `json:"banned"`
	Note      string  `json:"note,omitempty"`
}

// lookup says how an id stands, and changes nothing.
func (d *Dashboard) lookup(r *http.Request) (any, error) {
	var w whom
	if err := read(r, &w); err != nil {
		return nil, err
	}
	guard, id, err := d.find(w)
	if err != nil {
		return nil, err
	}
	standings, err := guard.Peek(r.Context(), id)
	if err != nil {
		return nil, err
	}
	found := foundView{Rules: []ruleView{}}
	for i := range standings {
		found.Rules = append(found.Rules, rulesOf(&standings[i])...)
	}
	return found, nil
}

func rulesOf(s *ratelimit.Standing) (all []ruleView) {
	note := ""
	switch {
	case s.Off:
		note = "off"
	case s.Shadow:
		note = "shadow"
	}
	if s.Held != nil {
		most := max(1, s.Limit.Count)
		return []ruleView{{Limit: s.Name, Rule: s.Limit.String(), Count: most, Remaining: max(0, most-s.Held.Cost), Note: note}}
	}
	for _, r := range s.Rules {
		all = append(all, ruleView{
			Limit: s.Name, Rule: r.Rule.String(), Count: r.Capacity, Remaining: r.Remaining,
			Reset: r.ResetAfter.Seconds(), Retry: r.RetryAfter.Seconds(), Banned: s.Banned.Seconds(), Note: note,
		})
	}
	return all
}

// order is a change that somebody asks for.
type order struct {
	whom
	Do      string `json:"do"` // reset, grant, ban, unban or override
	Permits int64  `json:"permits"`
	For     string `json:"for"`   // a duration as ban= has it
	Limit   string `json:"limit"` // what overrides call it
	Text    string `json:"text"`  // an override, "shadow", "enforce" or "off"; empty for none
}

// String is what is asked for, without the id.
func (o order) String() string {
	if o.Do == "override" {
		return o.Do + " " + o.Limit
	}
	return fmt.Sprintf("%s %s of %s", o.Do, o.Kind, o.Method)
}

// doneView says what was done.
type doneView struct {
	Done string `json:"done"`
}

// change does what somebody asks for, and logs who and what, done or not.
func (d *Dashboard) change(r *http.Request) (any, error) {
	if !d.writes {
		return nil, errForbidden
	}
	var o order
	if err := read(r, &o); err != nil {
		return nil, err
	}
	who := rules.Brief(d.who(r), mostTold)
	what, do, err := d.plan(o)
	if err != nil {
		what = rules.Brief(o.String(), mostTold)
	} else {
		err = do(r.Context())
	}
	var but *aside
	if errors.As(err, &but) {
		what += ": " + but.text
	}
	attrs := []slog.Attr{slog.String("who", who), slog.String("what", what), slog.String("instance", d.instance)}
	if err != nil && but == nil {
		d.log.LogAttrs(r.Context(), slog.LevelWarn, "rate limits could not be changed by hand", append(attrs, slog.String("error", rules.Brief(err.Error(), mostLogged)))...)
		return nil, err
	}
	d.log.LogAttrs(r.Context(), slog.LevelInfo, "rate limits were changed by hand", attrs...)
	d.record(r.Context(), change{When: d.observer.clock().UnixMilli(), Who: who, What: what})
	if but != nil {
		return nil, fmt.Errorf("dashboard: the override is written; %w", but)
	}
	return doneView{"Done: " + what}, nil
}

// How many bytes are told of a text that somebody has written, of an error in the log, and of one on the page.
const (
	mostTold   = 200
	mostLogged = 500
	mostPaged  = 4000
)

// plan says what an order is, and returns what does it.
func (d *Dashboard) plan(o order) (what string, do func(context.Context) error, err error) {
	if o.Do == "override" {
		return d.planOverride(o)
	}
	guard, id, err := d.find(o.whom)
	if err != nil {
		return "", nil, err
	}
	if err := o.fits(guard.Policy()); err != nil {
		return "", nil, err
	}
	whose := fmt.Sprintf("%s of %s", d.nameOf(guard, id), o.Method)
	switch o.Do {
	case "reset":
		return "reset " + whose, func(ctx context.Context) error {
			return errors.Join(guard.Reset(ctx, id), d.seeBans(ctx, guard, id))
		}, nil
	case "grant":
		return fmt.Sprintf("grant %s to %s", plural(int(o.Permits), "permit"), whose), func(ctx context.Context) error {
			return grant(ctx, guard, id, o.Permits)
		}, nil
	case "ban":
		length, err := rules.ParseBan(o.For)
		if err != nil {
			return "", nil, refusef("for how long to ban: %w", err)
		}
		return fmt.Sprintf("ban %s for %v", whose, length), func(ctx context.Context) error {
			return d.ban(ctx, guard, id, length)
		}, nil
	case "unban":
		return "lift the ban of " + whose, func(ctx context.Context) error { return d.ban(ctx, guard, id, 0) }, nil
	}
	return "", nil, refusef("found the change %q, want reset, grant, ban, unban or override", o.Do)
}

// fits says what keeps a policy from having what an order asks for: a limit that can do it, or so many permits.
func (o order) fits(p *rules.Policy) error {
	what, can := "counts", func(l *rules.Limit) bool { return !l.Kind.Holds() }
	switch o.Do {
	case "grant":
		if o.Permits < 1 {
			return refusef("found a grant of %d permits, want 1 or more", o.Permits)
		}
		what, can = "counts and is no queue", func(l *rules.Limit) bool { return !l.Kind.Holds() && !l.Queues() }
	case "ban", "unban":
		what, can = "has ban=", func(l *rules.Limit) bool { return l.Ban > 0 }
	}
	for i := range p.Limits {
		if l := &p.Limits[i]; l.Whose().String() == o.Kind && can(l) {
			return nil
		}
	}
	return refusef("found no limit by %s of %s.%s that %s, want one", o.Kind, p.Type, p.Method, what)
}

// grant gives an id permits back, unless they are more than its limits ever have.
func grant(ctx context.Context, guard *ratelimit.Guard, id ratelimit.ID, permits int64) error {
	err := guard.Grant(ctx, id, permits)
	if !errors.Is(err, ratelimit.ErrMisconfigured) {
		return err
	}
	standings, peeked := guard.Peek(ctx, id)
	if peeked != nil {
		return err
	}
	for i := range standings {
		if s := &standings[i]; s.Held == nil && !s.Limit.Queues() && permits > most(s) {
			return refusef("found a grant of %d permits, want 1 to %d, which %s has", permits, most(s), s.Name)
		}
	}
	return err
}

// most is the largest count of a limit's rules.
func most(s *ratelimit.Standing) (n int64) {
	for _, r := range s.Rules {
		n = max(n, r.Capacity)
	}
	return n
}

// nameOf is what lists call an id, and so do logs: by its text in keys, which is another than was asked for where an address counts by its network, or a text is long.
func (d *Dashboard) nameOf(guard *ratelimit.Guard, id ratelimit.ID) string {
	if id.Kind == rules.Global {
		return "all callers"
	}
	limits, _ := guard.Keys(context.Background(), id) // none of an id that the method does not count by, of which nothing will be done
	for _, l := range limits {
		if len(l.Keys) > 0 && !l.Limit.Kind.Holds() {
			return readable(d.ids.show(idOf(l.Keys[0])))
		}
	}
	return readable(d.ids.show(id.Kind.String() + "=" + rules.Escape(id.Text)))
}

func (d *Dashboard) ban(ctx context.Context, guard *ratelimit.Guard, id ratelimit.ID, length time.Duration) error {
	if err := guard.Ban(ctx, id, length); err != nil {
		return err
	}
	return d.seeBans(ctx, guard, id)
}

// seeBans takes note of what has become of the bans of an id.
func (d *Dashboard) seeBans(ctx context.Context, guard *ratelimit.Guard, id ratelimit.ID) error {
	standings, err := guard.Peek(ctx, id)
	if err != nil {
		return nil // it is done; the list learns of it by the id's next call
	}
	now := d.observer.clock()
	for _, s := range standings {
		w := who{laneOf(guard.Policy(), s.Index), idOf(s.Key)}
		if s.Banned > 0 {
			d.observer.bans.see(w, now.Add(s.Banned))
		} else if s.Limit.Ban > 0 {
			d.observer.bans.lift(w)
		}
	}
	return nil
}

// record lists a change, for all instances where they tell each other.
func (d *Dashboard) record(ctx context.Context, c change) {
	d.diary.add(c)
	if d.fleet == nil {
		return
	}
	if err := d.fleet.record(context.WithoutCancel(ctx), c); err != nil {
		d.log.WarnContext(ctx, "the other instances' pages do not show a change", "error", err)
	}
}

// maxBody is how long a request may be: an id, and what is to be done.
const maxBody = 1 << 16

// read reads the JSON of a request.
func read(r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refusef("found the content type %q, want application/json", r.Header.Get("Content-Type"))
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return refuse(err)
	}
	if len(text) > maxBody {
		return refusef("found more than %d bytes, want less", maxBody)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return refusef("found a body that is not what the page sends: %w", err)
	}
	return nil
}

// posted serves what a page of the same origin sends.
func (d *Dashboard) posted(answer func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := d.cross.Check(r); err != nil {
			http.Error(w, "dashboard: "+err.Error()+", want a request of this page's own origin", http.StatusForbidden)
			return
		}
		v, err := answer(r)
		if err != nil {
			http.Error(w, rules.Brief(err.Error(), mostPaged), statusOf(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
}

// statusOf is the status of an error's answer.
func statusOf(err error) int {
	var refused refusal
	switch {
	case errors.Is(err, errForbidden):
		return http.StatusForbidden
	case errors.As(err, &refused), errors.Is(err, ratelimit.ErrNoIdentity):
		return http.StatusBadRequest
	case errors.Is(err, ratelimit.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusConflict
}
