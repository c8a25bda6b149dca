package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
)

// frames is one snapshot, as events of a stream.
type frames struct {
	static  []byte // what changes seldom
	version string // of that
	scope   string // whose counts the history has
	history func() []byte
	tick    []byte
}

// staticView is what the page need not be told each second.
type staticView struct {
	Service   string      `json:"service"`
	Instance  string      `json:"instance"`
	Rules     string      `json:"rules"`
	Writes    bool        `json:"writes"`
	Overrides bool        `json:"overrides"` // can be written
	Span      int         `json:"span"`
	Limits    []limitView `json:"limits"`
}

// tickView is what happened lately.
type tickView struct {
	Now       int64                 `json:"now"` // the second that has begun
	Fleet     fleetView             `json:"fleet"`
	Store     storeView             `json:"store"`
	Overrides overridesView         `json:"overrides"`
	Latency   [2]float64            `json:"latency"` // p50 and p99 of the last minute, ms
	Instances []instanceView        `json:"instances"`
	Denied    []deniedView          `json:"denied"`
	Bans      []banView             `json:"bans"`
	Changes   []change              `json:"changes"`
	Others    []string              `json:"others,omitempty"` // limits that other instances count and this one does not know
	From      int64                 `json:"from"`
	Lanes     map[string][][]uint32 `json:"lanes"`
	Trips     [2][]float64          `json:"trips"` // p50 and p99 of each second, ms
}

// historyView is the last minutes.
type historyView struct {
	From  int64                 `json:"from"`
	Lanes map[string][][]uint32 `json:"lanes"`
	Trips [2][]float64          `json:"trips"`
}

type instanceView struct {
	Name    string `json:"name"`
	Rules   string `json:"rules"`
	Started int64  `json:"started"`
	Seen    int64  `json:"seen"` // s ago
	Self    bool   `json:"self,omitempty"`
}

type deniedView struct {
	Limit string `json:"limit"`
	ID    string `json:"id"`
	Count int64  `json:"count"`
}

type banView struct {
	Limit string  `json:"limit"`
	ID    string  `json:"id"`
	Left  float64 `json:"left"` // s
}

const (
	// tail is how many seconds each tick tells anew: others may be late.
	tail = 6
	// longTail is how many each tenth does: others may have had to wait for Redis.
	longTail  = toldSpan + 10
	longEvery = 10
)

// tailOf is how many seconds the n-th tick tells anew.
func tailOf(n int) int64 {
	if n%longEvery == 0 {
		return longTail
	}
	return tail
}

// frames makes a snapshot; of the one before it, what has not changed is used again.
func (d *Dashboard) frames(before *frames) *frames {
	survey := d.limiter.Survey()
	limits := d.limitsOf(survey)
	static := staticView{
		Service: d.service, Instance: d.instance, Rules: versionOf(limits), Writes: d.writes,
		Overrides: d.writes && d.client != nil, Span: span, Limits: limits,
	}
	f := &frames{}
	f.static = event("limits", static)
	if before != nil && bytes.Equal(before.static, f.static) {
		f.version = before.version
	} else {
		f.version = fmt.Sprint(time.Now().UnixNano())
	}
	v := d.tick(survey, limits)
	f.tick, f.scope = event("tick", v), v.Fleet.Scope
	f.history = sync.OnceValue(func() []byte {
		book := d.bookOf(v.Fleet.Scope)
		from := v.Now - span + 1
		return event("history", historyView{from, columns(book, from, v.Now+1), trips(book, from, v.Now+1)})
	})
	return f
}

// event is an event of a stream.
func event(name string, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("dashboard: " + err.Error()) // no view has what JSON cannot
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
}

func (d *Dashboard) tick(survey ratelimit.Survey, limits []limitView) tickView {
	state, now := d.state()
	v := tickView{
		Fleet: d.scopeOf(state), Store: d.healthOf(survey.Store), Overrides: d.overridesOf(survey),
		Denied: []deniedView{}, Bans: []banView{},
	}
	book := d.bookOf(v.Fleet.Scope)
	if v.Fleet.Scope == "instance" {
		now = d.observer.clock()
		state = d.alone(now, limits)
	}
	v.Now = now.Unix()
	v.From = v.Now - tailOf(d.pulse.beats) + 1
	v.Lanes, v.Trips = columns(book, v.From, v.Now+1), trips(book, v.From, v.Now+1)
	minute := book.lane(latencyLane).sum(v.Now-60, v.Now+1)
	v.Latency = [2]float64{ms(quantile(minute, .5)), ms(quantile(minute, .99))}
	for _, r := range state.top {
		v.Denied = append(v.Denied, deniedView{r.limit, readable(r.id), r.count})
	}
	for _, b := range state.bans {
		v.Bans = append(v.Bans, banView{b.limit, readable(b.id), b.until.Sub(d.observer.clock()).Seconds()})
	}
	for _, p := range state.instances {
		v.Instances = append(v.Instances, instanceView{p.Name, p.Rules, p.Started, max(0, now.Unix()-p.seen.Unix()), p.ID == d.member})
	}
	v.Changes = state.changes
	v.Others = others(book, limits, v.Now)
	return v
}

// state is what the fleet has last told, and its time.
func (d *Dashboard) state() (shared, time.Time) {
	if d.fleet == nil {
		return shared{}, d.observer.clock()
	}
	return d.fleet.shared(), d.fleet.now()
}

// alone is what this instance knows by itself, in the form of what the fleet tells.
func (d *Dashboard) alone(now time.Time, limits []limitView) shared {
	me := presence{ID: d.member, Name: d.instance, Rules: versionOf(limits), Started: d.began.Unix(), seen: now}
	s := shared{instances: []presence{me}, changes: d.diary.latest()}
	for _, r := range d.observer.denied.top(now, shown) {
		s.top = append(s.top, ranked{who{r.limit, d.ids.show(r.id)}, r.count})
	}
	for _, b := range d.observer.bans.list(now) {
		b.id = d.ids.show(b.id)
		s.bans = append(s.bans, b)
	}
	return s
}

// bookOf has the counts of a scope.
func (d *Dashboard) bookOf(scope string) *book {
	if scope == "fleet" {
		return &d.fleet.book
	}
	return &d.observer.book
}

// columns are the counts of all lanes but the latencies' from one second until before another, by kind; those of nothing but zeros are left out.
func columns(b *book, from, until int64) map[string][][]uint32 {
	all := make(map[string][][]uint32)
	for name, l := range b.all() {
		if name == latencyLane {
			continue
		}
		of, any := make([][]uint32, kinds), false
		for kind := range kinds {
			if counts := l.read(kind, from, until); !zeros(counts) {
				of[kind], any = counts, true
			}
		}
		if any {
			all[name] = of
		}
	}
	return all
}

func zeros(counts []uint32) bool {
	for _, n := range counts {
		if n > 0 {
			return false
		}
	}
	return true
}

// trips are the p50 and p99 of each second, in ms.
func trips(b *book, from, until int64) (t [2][]float64) {
	l := b.lane(latencyLane)
	for s := from; s < until; s++ {
		counts := l.sum(s, s+1)
		t[0] = append(t[0], ms(quantile(counts, .5)))
		t[1] = append(t[1], ms(quantile(counts, .99)))
	}
	return t
}

// ms is a duration in ms, to the µs.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// others are the lanes of limits that were counted lately and are none of these.
func others(b *book, limits []limitView, now int64) (names []string) {
	known := make(map[string]bool, 2*len(limits))
	for _, l := range limits {
		known[l.ID], known[l.Method] = true, true
	}
	for _, name := range b.names() {
		if name != latencyLane && !known[name] && !zeros(b.lane(name).sum(now-span, now+1)) {
			names = append(names, name)
		}
	}
	return names
}
