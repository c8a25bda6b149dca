package simulation_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/simulation"
	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
	"github.com/rlgen/rlgen/rules"
)

// call is one that is written down.
type call struct {
	At         int64
	Addr, User string
	Cost       int64
	Status     int
}

// calls is traffic that is written down.
type calls []call

func (c calls) source() traffic.Source { return &written{calls: c} }

// written gives calls, whose names it forgets as early as it may.
type written struct {
	calls
	addrs, users traffic.Names
	decided      int64
}

func (w *written) Decided(at int64) { w.decided = at }

func (w *written) Next(c *traffic.Call) error {
	if len(w.calls) == 0 {
		return io.EOF
	}
	next := w.calls[0]
	w.calls = w.calls[1:]
	addr, user := traffic.AddressID([]byte(next.Addr)), []byte(next.User)
	*c = traffic.Call{
		At: next.At, Addr: w.addrs.Of(addr, next.At, w.decided), User: w.users.Of(user, next.At, w.decided), Cost: next.Cost, Status: next.Status,
	}
	return nil
}

func simulate(t *testing.T, list calls, candidates ...[]string) *simulation.Simulation {
	t.Helper()
	var parsed []simulation.Candidate
	for _, directives := range candidates {
		c, err := simulation.Parse(fmt.Sprint(directives), "", directives...)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, c)
	}
	s, err := simulation.New(parsed...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(list.source(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// random makes calls of a few ids, many of them at the same microsecond, some without a user, some in other notations of one
// address.
func random(seed uint64, n int) calls {
	r := rand.New(rand.NewPCG(seed, 0))
	addrs := []string{"10.0.0.1", "10.0.0.2", "::ffff:10.0.0.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "nonsense"}
	users := []string{"alice", "bob", "carol", ""}
	now := int64(1_700_000_000_000_000)
	var list calls
	for range n {
		now += r.Int64N(3) * r.Int64N(300_000)
		list = append(list, call{
			At: now, Addr: addrs[r.IntN(len(addrs))], User: users[r.IntN(len(users))], Cost: 1 + r.Int64N(2), Status: 200 + 200*r.IntN(2),
		})
	}
	return list
}

// tally is what a recount finds.
type tally struct {
	Allowed, Denied int64
	Limits          []limitTally
}

type limitTally struct {
	Calls, Denied, NoID int64
	Rules               []int64
	Hits                map[string]int64
}

// recount decides calls as the definition of a sliding log has it: every unit that was admitted is looked at again for each
// call. It knows nothing of how the limiter counts.
func recount(list calls, limits []rules.Limit) tally {
	type unit struct{ at, cost int64 }
	admitted := make([]map[string][]unit, len(limits))
	out := tally{Limits: make([]limitTally, len(limits))}
	for i := range limits {
		admitted[i] = map[string][]unit{}
		out.Limits[i] = limitTally{Rules: make([]int64, len(limits[i].Rules)), Hits: map[string]int64{}}
	}
	for _, call := range list {
		ids := make([]string, len(limits))
		able := true
		for i, l := range limits {
			ids[i] = identify(&l, &call)
			out.Limits[i].Calls++
			if ids[i] == "" {
				out.Limits[i].NoID++
				able = false
			}
		}
		if !able {
			out.Denied++
			continue
		}
		allowed := true
		for i, l := range limits {
			fits := true
			for j, r := range l.Rules {
				used := int64(0)
				for _, u := range admitted[i][ids[i]] {
					if u.at > call.At-r.Window.Microseconds() {
						used += u.cost
					}
				}
				if used+call.Cost > r.Count {
					out.Limits[i].Rules[j]++
					fits = false
				}
			}
			if !fits {
				out.Limits[i].Denied++
				out.Limits[i].Hits[ids[i]]++
				allowed = false
			}
		}
		if !allowed {
			out.Denied++
			continue
		}
		out.Allowed++
		for i := range limits {
			admitted[i][ids[i]] = append(admitted[i][ids[i]], unit{call.At, call.Cost})
		}
	}
	return out
}

func identify(l *rules.Limit, call *call) string {
	switch l.Kind {
	case rules.User:
		return call.User
	case rules.IP:
		addr, err := netip.ParseAddr(call.Addr)
		if addr = addr.Unmap(); err != nil || addr.Is4() {
			return strings.TrimPrefix(addr.String(), "invalid IP")
		}
		network, _ := addr.Prefix(64)
		return network.Addr().String()
	}
	return "all"
}

// TestRecount holds that a simulation counts what a recount by the definition does.
func TestRecount(t *testing.T) {
	directives := []string{"user 4,1s 9,5s", "ip 5,2s", "global 12,1s"}
	for seed := range uint64(20) {
		list := random(seed, 2000)
		s := simulate(t, list, directives)
		run := s.Runs[0]
		var limits []rules.Limit
		for _, l := range run.Limits {
			limits = append(limits, *l.Limit)
		}
		if diff := cmp.Diff(recount(list, limits), tallied(run)); diff != "" {
			t.Fatalf("seed %d: simulation differs from the recount (-recount +simulation):\n%s", seed, diff)
		}
		if s.Calls != int64(len(list)) || s.First != list[0].At || s.Last != list[len(list)-1].At {
			t.Errorf("seed %d: %d calls from %d to %d, want %d from %d to %d", seed, s.Calls, s.First, s.Last, len(list), list[0].At, list[len(list)-1].At)
		}
	}
}

// TestRecountOfMany holds the same of ids that come, go and come again, which the simulation forgets meanwhile, by algorithms that remember for longer than their
// windows too.
func TestRecountOfMany(t *testing.T) {
	directives := []string{"user 2,1s 3,5s", "ip 2,2s"}
	r := rand.New(rand.NewPCG(1, 1))
	now := int64(1_700_000_000_000_000)
	var list calls
	for n := range 60_000 {
		now += r.Int64N(4000)
		id := (n/7 + r.IntN(40)*r.IntN(40)*r.IntN(40)) % 12_000
		list = append(list, call{At: now, User: fmt.Sprint("user-", id), Addr: fmt.Sprintf("2001:db8:0:%x::%x", r.IntN(6000), r.IntN(3)), Cost: 1})
	}
	s := simulate(t, list, directives, []string{"user 1,1s algo=gcra burst=30"})
	want := recount(list, []rules.Limit{*s.Runs[0].Limits[0].Limit, *s.Runs[0].Limits[1].Limit})
	for _, one := range want.Limits {
		if len(one.Hits) < 100 {
			t.Errorf("%d ids are denied, want many", len(one.Hits))
		}
	}
	if diff := cmp.Diff(want, tallied(s.Runs[0])); diff != "" {
		t.Errorf("simulation differs from the recount (-recount +simulation):\n%s", diff)
	}
	if got, want := s.Runs[1].Allowed, gcra(list, 1, 30); got != want {
		t.Errorf("gcra allows %d, want %d", got, want)
	}
}

// gcra counts the calls that have room in buckets of burst which gain rate in a second, and are never forgotten.
func gcra(list calls, rate, burst int64) (allowed int64) {
	full := map[string]int64{} // when the bucket is full again, µs
	for _, c := range list {
		next := max(full[c.User], c.At) + 1e6/rate
		if next-c.At > burst*1e6/rate {
			continue
		}
		full[c.User] = next
		allowed++
	}
	return allowed
}

func tallied(run *simulation.Run) tally {
	out := tally{Allowed: run.Allowed, Denied: run.Denied}
	for _, l := range run.Limits {
		one := limitTally{Calls: l.Calls, Denied: l.Denied, NoID: l.NoID, Hits: map[string]int64{}}
		for _, r := range l.Rules {
			one.Rules = append(one.Rules, r.Denied)
		}
		for _, h := range l.Hit.First(1 << 20) {
			one.Hits[h.ID] = h.Count
			if l.Kind == rules.Global {
				delete(one.Hits, h.ID)
				one.Hits["all"] = h.Count
			}
		}
		out.Limits = append(out.Limits, one)
	}
	return out
}

// TestOneText holds that users, addresses and keys of one text are different ids, in a log too, and that limits of several kinds and runs know each their own.
func TestOneText(t *testing.T) {
	text := "time,address,user,key\n"
	for range 3 {
		text += "1,10.0.0.1,10.0.0.1,10.0.0.1\n1,::ffff:10.0.0.1,b,b\n"
	}
	var candidates []simulation.Candidate
	for _, directives := range [][]string{{"user 2,1s", "ip 5,1s", "user 9,2s"}, {"key 1,1s by=x", "ip 2,1s"}} {
		c, err := simulation.Parse(fmt.Sprint(directives), "", directives...)
		if err != nil {
			t.Fatal(err)
		}
		candidates = append(candidates, c)
	}
	s, err := simulation.New(candidates...)
	if err != nil {
		t.Fatal(err)
	}
	source, err := traffic.Log{}.Read(traffic.File{Name: "log", Reader: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(source, nil); err != nil {
		t.Fatal(err)
	}
	if s.Runs[0].Allowed != 4 || s.Runs[1].Allowed != 2 {
		t.Errorf("%d and %d are allowed, want 4 (two of each user) and 2 (one of each key)", s.Runs[0].Allowed, s.Runs[1].Allowed)
	}
	for i, want := range [][]int{{2, 1, 2}, {2, 1}} {
		for j, l := range s.Runs[i].Limits {
			if l.MostIDs() != want[j] {
				t.Errorf("%v has %d ids, want %d", l.Limit, l.MostIDs(), want[j])
			}
		}
	}
}

// A ban of one identity is none of another that has the same text.
func TestBansOfOneText(t *testing.T) {
	var list calls
	for i := range int64(3) {
		list = append(list, call{At: 1_700_000_000_000_000 + i, User: "10.0.0.1", Addr: fmt.Sprint("10.1.0.", i), Cost: 1})
	}
	for i := range int64(3) {
		list = append(list, call{At: 1_700_000_005_000_000 + i, User: fmt.Sprint("bob", i), Addr: "10.0.0.1", Cost: 1})
	}
	s := simulate(t, list, []string{"user 1,1s ban=1m after=2", "ip 5,1s ban=1m after=2"})
	if got := s.Runs[0].Allowed; got != 4 {
		t.Errorf("%d are allowed, want 4: one of the user 10.0.0.1, whom a ban keeps out then, and three of the address", got)
	}
}

// TestCourse holds that bins of any width have all the calls, whatever time they span.
func TestCourse(t *testing.T) {
	for _, step := range []time.Duration{time.Microsecond, 700 * time.Microsecond, time.Second, 3 * time.Hour, 5 * 24 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			var list calls
			for i := range int64(10_000) {
				list = append(list, call{At: 1_700_000_000_123_456 + i*step.Microseconds(), User: "alice", Cost: 1})
			}
			s := simulate(t, list, []string{"user 1,1s"}, []string{"user 1,1h"})
			for _, n := range []int{1, 60, 1000, 10_000} {
				bins, width := s.Bins.Merged(n)
				var calls, allowed, rival int64
				for _, b := range bins {
					calls, allowed, rival = calls+b.Calls, allowed+b.Allowed[0], rival+b.Allowed[1]
				}
				if len(bins) > n || calls != s.Calls || allowed != s.Runs[0].Allowed || rival != s.Runs[1].Allowed {
					t.Errorf("Merged(%d) = %d bins with %d calls, %d and %d allowed, want %d, %d and %d", n, len(bins), calls, allowed, rival, s.Calls, s.Runs[0].Allowed, s.Runs[1].Allowed)
				}
				if end := s.Bins.Start + int64(len(bins))*width.Microseconds(); s.First < s.Bins.Start || s.Last >= end {
					t.Errorf("Merged(%d) spans %d to %d, want %d to %d in it", n, s.Bins.Start, end, s.First, s.Last)
				}
			}
		})
	}
}

// TestTold says what a simulation tells of one limit.
func TestTold(t *testing.T) {
	at := func(seconds float64, user string) call {
		return call{At: int64(seconds * 1e6), User: user, Cost: 1}
	}
	failing := at(4, "carol")
	failing.Status = 401
	large := at(5, "dave")
	large.Cost = 3
	for _, test := range []struct {
		directive string
		calls     calls
		check     func(t *testing.T, l *simulation.Limit)
	}{
		{"user 2,10s", calls{at(1, "a"), at(2, "a"), at(3, "a"), at(3, "b"), at(10.5, "a")}, func(t *testing.T, l *simulation.Limit) {
			if l.LongestRetry != 8*time.Second || l.Denied != 2 {
				t.Errorf("denied %d, longest retry %v, want 2 and 8s", l.Denied, l.LongestRetry)
			}
			if r := l.Rules[0]; r.Peak != 3 || r.PeakID != "a" || r.PeakAt != 0 {
				t.Errorf("peak %d of %q at %d, want 3 of a at 0", r.Peak, r.PeakID, r.PeakAt)
			}
			if l.MostIDs() != 2 {
				t.Errorf("MostIDs() = %d, want 2", l.MostIDs())
			}
		}},
		{"user 1,10s charge=error", calls{at(1, "carol"), at(2, "carol"), at(3, "carol"), failing, at(5, "carol")}, func(t *testing.T, l *simulation.Limit) {
			if l.Denied != 1 {
				t.Errorf("denied %d, want 1: a call that fails is charged, others are not", l.Denied)
			}
		}},
		{"user 2,10s", calls{large}, func(t *testing.T, l *simulation.Limit) {
			if l.TooBig != 1 || l.Denied != 0 {
				t.Errorf("%d too big, %d denied, want 1 and 0", l.TooBig, l.Denied)
			}
		}},
		{"user 1,1s wait=400ms", calls{at(0, "a"), at(0.5, "a"), at(0.6, "a"), at(0.7, "a")}, func(t *testing.T, l *simulation.Limit) {
			if l.Denied != 3 || l.Patient != 2 {
				t.Errorf("%d denied, %d would have had room, want 3 and 2", l.Denied, l.Patient)
			}
		}},
		{"user 1,1s algo=leaky-bucket wait=1500ms", calls{at(0, "a"), at(0, "a"), at(0, "a")}, func(t *testing.T, l *simulation.Limit) {
			if l.Denied != 1 || l.LongestDelay != time.Second {
				t.Errorf("%d denied, delayed for %v at most, want 1 and 1s", l.Denied, l.LongestDelay)
			}
		}},
		{"user 1,1s missing=allow", calls{at(0, ""), at(0, "")}, func(t *testing.T, l *simulation.Limit) {
			if l.Calls != 0 || l.NoID != 0 {
				t.Errorf("%d calls, %d without id, want none: they pass by it", l.Calls, l.NoID)
			}
		}},
	} {
		t.Run(test.directive, func(t *testing.T) {
			test.check(t, simulate(t, test.calls, []string{test.directive}).Runs[0].Limits[0])
		})
	}
}

// TestPeaks holds the most calls in a window of each of many rules, for each of several limits of the same ids.
func TestPeaks(t *testing.T) {
	var list calls
	for i := range 100 {
		list = append(list, call{At: int64(i) * 1e6, User: []string{"a", "b"}[i%2], Cost: int64(1 + i%2)})
	}
	four := []string{"user 90,4s 91,10s 92,40s 93,100s"}
	want := []int64{4, 10, 40, 100} // of b, who costs 2 each other second
	for n := range 4 {
		rivals := slices.Repeat([][]string{four}, n+1)
		for i, run := range simulate(t, list, rivals...).Runs {
			for j, r := range run.Limits[0].Rules {
				if r.Peak != want[j] || r.PeakID != "b" || run.Limits[0].MostIDs() != 2 {
					t.Errorf("candidate %d of %d, rule %v: %d calls of %q among %d ids, want %d of b among 2", i, n+1, r.Rule, r.Peak, r.PeakID, run.Limits[0].MostIDs(), want[j])
				}
			}
		}
	}
}

// TestMostIDs holds how many ids have keys at once, where these live for long: as long as a ban, until a deep bucket is full, or until a queue is empty. Each second
// another id calls so often at once.
func TestMostIDs(t *testing.T) {
	for _, test := range []struct {
		directive     string
		seconds, each int
		want          int
	}{
		{"user 1,1s", 300, 3, 2},
		{"user 1,1s ban=1h after=1", 300, 3, 300},
		{"user 1,1s ban=1m after=1", 300, 3, 60},
		{"user 1,1s ban=1h after=5", 300, 3, 1},
		{"user 1,10s ban=1h after=5", 300, 3, 10},
		{"user 1,10s ban=15s after=1", 300, 3, 15},
		{"user 1,1s burst=100 algo=gcra", 300, 100, 100},
		{"user 1,1s burst=100 algo=token-bucket", 300, 7, 7},
		{"user 1,1s burst=100 algo=leaky-bucket", 300, 7, 7},
		{"user 1,1s wait=20s algo=leaky-bucket", 300, 13, 13},
	} {
		t.Run(test.directive, func(t *testing.T) {
			var list calls
			for i := range test.seconds {
				for range test.each {
					list = append(list, call{At: int64(i) * 1e6, User: fmt.Sprint(i), Cost: 1})
				}
			}
			if got := simulate(t, list, []string{test.directive}).Runs[0].Limits[0].MostIDs(); got != test.want {
				t.Errorf("MostIDs() = %d, want %d", got, test.want)
			}
		})
	}
}

// TestMostIDsOnce holds that an id is counted once, however often it comes back while its key lives and afterwards.
func TestMostIDsOnce(t *testing.T) {
	for _, directive := range []string{"user 1,1s ban=10s after=1", "user 1,1s burst=10 algo=token-bucket", "user 1,1s wait=5s algo=leaky-bucket"} {
		var list calls
		for i := range 2000 {
			list = append(list, call{At: int64(i) * int64(i) * 3e3, User: fmt.Sprint(i % 3), Cost: 1}) // farther and farther from one another
		}
		if got := simulate(t, list, []string{directive}).Runs[0].Limits[0].MostIDs(); got != 3 {
			t.Errorf("%s: MostIDs() = %d, want 3", directive, got)
		}
	}
}

func TestDisorder(t *testing.T) {
	c, err := simulation.Parse("x", "", "global 1,1s")
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulation.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(calls{{At: 2, Cost: 1}, {At: 1, Cost: 1}}.source(), nil); err == nil {
		t.Error("calls in disorder are decided, want an error")
	}
}

func TestHeld(t *testing.T) {
	if _, err := simulation.Parse("x", "", "lock"); err == nil {
		t.Error("Parse(lock) = nil, want that there is nothing to simulate")
	}
	c, err := simulation.Parse("x", "", "lock", "global 1,1s")
	if err != nil || len(c.Policy.Limits) != 1 || len(c.Assumed) != 1 {
		t.Errorf("Parse(lock, global) = %+v, %v, want the global limit, and what is assumed", c, err)
	}
}

func TestPlans(t *testing.T) {
	directives := []string{"user 1,10s plan=free", "user 2,10s plan=pro", "global 9,1s mode=shadow"}
	for plan, want := range map[string]int64{"free": 1, "pro": 2} {
		c, err := simulation.Parse("x", plan, directives...)
		if err != nil {
			t.Fatal(err)
		}
		s, err := simulation.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(calls{{At: 1, User: "a", Cost: 1}, {At: 2, User: "a", Cost: 1}, {At: 3, User: "a", Cost: 1}}.source(), nil); err != nil {
			t.Fatal(err)
		}
		if run := s.Runs[0]; run.Allowed != want || len(run.Limits) != 1 || len(run.Assumed) != 1 {
			t.Errorf("plan %s: %d allowed by %d limits, assumed %q, want %d by one, and that the shadow is left out", plan, run.Allowed, len(run.Limits), run.Assumed, want)
		}
	}
	if _, err := simulation.Parse("x", "", directives...); err == nil || err.Error() != `x has limits for the plans free, pro, found calls of plan "", want one of those` {
		t.Errorf("Parse without a plan: %v", err)
	}
}

// TestTop holds what the bounded counts promise: of few texts they are exact, of many no count is less than the truth, or
// more than its error above it, and what occurs most is found.
func TestTop(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var top simulation.Top
	truth := map[string]int64{}
	for range 300_000 {
		id := fmt.Sprint(r.IntN(1 << r.IntN(16)))
		top.Add(id)
		truth[id]++
	}
	n, more := top.Len()
	if !more || n >= len(truth) {
		t.Fatalf("Len() = %d, %v, want fewer than %d and more", n, more, len(truth))
	}
	for _, h := range top.First(n) {
		if h.Count < truth[h.ID] || h.Count-h.Error > truth[h.ID] {
			t.Fatalf("%+v, want a count of %d to %d", h, truth[h.ID], truth[h.ID]+h.Error)
		}
	}
	var most []int64
	for _, n := range truth {
		most = append(most, n)
	}
	slices.Sort(most)
	for i, h := range top.First(5) {
		if h.Count != most[len(most)-1-i] {
			t.Errorf("First(5)[%d] = %+v, want a count of %d", i, h, most[len(most)-1-i])
		}
	}
}

func BenchmarkSimulate(b *testing.B) {
	c, err := simulation.Parse("x", "", "user 10,1s 100,1m", "global 5000,1s algo=gcra")
	if err != nil {
		b.Fatal(err)
	}
	s, err := simulation.New(c)
	if err != nil {
		b.Fatal(err)
	}
	source, err := traffic.Make(traffic.Made{Rate: 4000, Burst: 1, For: 100 * 24 * time.Hour, Shape: traffic.Poisson, IDs: 10_000, Zipf: 1, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := s.Run(&first{source, b.N}, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// first is the first n calls of a source.
type first struct {
	traffic.Source
	n int
}

func (f *first) Next(c *traffic.Call) error {
	if f.n == 0 {
		return io.EOF
	}
	f.n--
	return f.Source.Next(c)
}

// line is one of an access log, read in another way than package traffic does.
var line = regexp.MustCompile(`(?m)^(\S+) - (\S+) \[([^\]]+)\] "(\S+ \S+) [^"]*" (\d+)`)

// TestSample recounts the sample log of examples/shop.
func TestSample(t *testing.T) {
	const name = "../../../../examples/shop/access.log"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var list calls
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[3])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, call{At: at.UnixMicro(), Addr: m[1], User: strings.Trim(m[2], "-"), Cost: 1})
	}
	if lines := strings.Count(string(text), "\n"); len(list) != lines {
		t.Fatalf("%d calls in %d lines", len(list), lines)
	}
	if slices.IsSortedFunc(list, byTime) {
		t.Error("the sample is in order, want some lines that are late, as in real logs")
	}
	slices.SortStableFunc(list, byTime)

	directives := []string{"user 3,10s 100,1h", "global 4,1s"}
	c, err := simulation.Parse("sample", "", directives...)
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulation.New(c)
	if err != nil {
		t.Fatal(err)
	}
	source, err := traffic.Log{Within: 10 * time.Second}.Read(traffic.File{Name: name, Reader: bytes.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(source, nil); err != nil {
		t.Fatal(err)
	}
	want := recount(list, []rules.Limit{*s.Runs[0].Limits[0].Limit, *s.Runs[0].Limits[1].Limit})
	if diff := cmp.Diff(want, tallied(s.Runs[0])); diff != "" {
		t.Errorf("simulation differs from the recount (-recount +simulation):\n%s", diff)
	}
	if want.Denied == 0 || want.Limits[0].Rules[0] == 0 {
		t.Errorf("nothing is denied: %+v", want)
	}
}

func byTime(a, b call) int { return int(a.At - b.At) }
