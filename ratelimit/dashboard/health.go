package dashboard

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// storeView is how the store does, in plain words.
type storeView struct {
	State    string `json:"state"` // ok, some, down or refused
	Title    string `json:"title"`
	Text     string `json:"text"`
	Breaker  string `json:"breaker"` // closed or open; empty where there is none
	Breaking string `json:"breaking"`
}

// healthOf says how the store does that decides, as this process has seen it.
func (d *Dashboard) healthOf(h ratelimit.Health) storeView {
	v := storeView{State: "ok", Title: "In process", Text: "Counts are kept in this process, and end with it."}
	if !h.Remote {
		return v
	}
	v.Title, v.Text = "Redis decides", "Every limit is decided there, by its clock."
	v.Breaker, v.Breaking = "closed", "Every call asks Redis."
	switch {
	case !h.Refused.IsZero():
		v.State, v.Title = "refused", "Redis refuses"
		v.Text = fmt.Sprintf("Since %s limited calls fail, until somebody mends it%s", d.since(h.Refused, h.Failed), d.cause())
	case !h.Down.IsZero() && len(h.Resting) == 0 && d.observer.decidesLately():
		v.State, v.Title = "some", "Redis misses some calls"
		v.Text = fmt.Sprintf("Since %s some of the calls fell back to what their onfail says%s", d.since(h.Down, h.Failed), d.cause())
	case !h.Down.IsZero():
		v.State, v.Title = "down", "Redis cannot decide"
		v.Text = fmt.Sprintf("Since %s limits fall back to what their onfail says%s", d.since(h.Down, h.Failed), d.cause())
	}
	if len(h.Resting) > 0 {
		v.Breaker = "open"
		v.Breaking = "Several calls in a row failed. " + strings.Join(h.Resting, ", ") +
			" is left alone for 250 ms at a time, and then one call tries; the others do not wait for it."
	}
	return v
}

// since says when a trouble began, and when a call last met it.
func (d *Dashboard) since(began, latest time.Time) string {
	text := began.UTC().Format("15:04:05 UTC")
	if quiet := d.observer.clock().Sub(latest); quiet > 5*time.Second {
		text += fmt.Sprintf(" (no call has tried for %v)", quiet.Truncate(time.Second))
	}
	return text
}

// cause is what the last call that failed was told.
func (d *Dashboard) cause() string {
	t := d.observer.trouble.Load()
	if t == nil {
		return "."
	}
	return ": " + rules.Brief(t.text, 300)
}

// fleetView says whose counts are shown, and why.
type fleetView struct {
	Scope string `json:"scope"` // fleet or instance
	Text  string `json:"text"`
}

func (d *Dashboard) scopeOf(s shared) fleetView {
	switch {
	case d.fleet == nil:
		return fleetView{"instance", "This instance alone: the dashboard has no WithRedis."}
	case d.running.Load() == 0:
		return fleetView{"instance", "This instance alone: Dashboard.Run is not running."}
	case time.Since(s.read) < fresh:
		return fleetView{"fleet", fmt.Sprintf("The sum of %s, by way of Redis in %v.", plural(len(s.instances), "instance"), s.trip.Round(10*time.Microsecond))}
	case s.err != nil:
		return fleetView{"instance", "This instance alone: Redis does not tell what the others count: " + rules.Brief(s.err.Error(), mostTold)}
	}
	return fleetView{"instance", "This instance alone, until Redis has told what the others count."}
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// overridesView is what becomes of overrides.
type overridesView struct {
	Count   int    `json:"count"`
	Refused string `json:"refused,omitempty"`
	Changed int64  `json:"changed,omitempty"` // when they were last read anew, s
}

func (d *Dashboard) overridesOf(s ratelimit.Survey) (v overridesView) {
	for _, p := range s.Policies {
		for _, by := range p.By {
			if by != nil {
				v.Count++
			}
		}
	}
	v.Refused = rules.Brief(s.Refused, mostPaged)
	if t := d.observer.reload.Load(); t != nil {
		v.Changed = t.at.Unix()
	}
	return v
}
