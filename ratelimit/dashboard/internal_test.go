package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// A ranking names those whom a limit denies most among however many, and says of none that it was denied more often than it was.
func TestRanking(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var r ranking
	start := time.Unix(1_800_000_000, 0)
	truth := map[who]int64{}
	add := func(at time.Time, w who) { r.add(at, w); truth[w]++ }
	for n := range 100_000 {
		at := start.Add(time.Duration(n) * 2 * time.Millisecond) // in three and a half minutes
		add(at, who{"limit", fmt.Sprintf("user=%d", random.IntN(50_000))})
		if n%20 == 0 {
			add(at, who{"limit", "user=often"})
		}
		if n%40 == 0 {
			add(at, who{"other", "user=often"})
		}
	}
	end := start.Add(200 * time.Second)
	top := r.top(end, 50)
	if len(top) != 50 || top[0].who != (who{"limit", "user=often"}) || top[1].who != (who{"other", "user=often"}) {
		t.Fatalf("the first of %d are %v, want the two that were denied often", len(top), top[:2])
	}
	for n, got := range top {
		if got.count > truth[got.who] {
			t.Errorf("%v was denied %d times, want no more than %d", got.who, got.count, truth[got.who])
		}
		if n < 2 && got.count < truth[got.who]*9/10 {
			t.Errorf("%v was denied %d times, want about %d", got.who, got.count, truth[got.who])
		}
	}
	for i := range r.minutes {
		if n := len(r.minutes[i].entries); n > rankSize || len(r.minutes[i].places) != n {
			t.Errorf("a minute has %d entries and %d places, want as many, and %d at most", n, len(r.minutes[i].places), rankSize)
		}
	}
	if left := r.top(end.Add(rankMinutes*time.Minute), 50); len(left) != 0 {
		t.Errorf("minutes later there are %v, want none", left)
	}
}

// What is told of a ranking is what it counted, once.
func TestRankingIsToldOnce(t *testing.T) {
	var r ranking
	now := time.Unix(1_800_000_000, 0)
	sums := map[who]int64{}
	for n := range 1000 {
		for range n % 7 {
			r.add(now, who{"limit", fmt.Sprint(n % 100)})
		}
		for _, list := range r.unsent(now, toldRanks) {
			for _, told := range list {
				sums[told.who] += told.count
			}
		}
	}
	for range 10 { // what is left of those that were too many at once
		for _, list := range r.unsent(now, toldRanks) {
			for _, told := range list {
				sums[told.who] += told.count
			}
		}
	}
	for _, want := range r.top(now, 200) {
		if sums[want.who] != want.count {
			t.Errorf("of %v %d denials were told, want %d", want.who, sums[want.who], want.count)
		}
	}
}

// What nobody was told of is told again.
func TestTakenBack(t *testing.T) {
	var r ranking
	var b bans
	now := time.Unix(1_800_000_000, 0)
	w := who{"limit", "user=1"}
	r.add(now, w)
	b.see(w, now.Add(time.Minute))
	b.lift(who{"limit", "user=2"})
	for range 2 {
		denied := r.unsent(now, toldRanks)
		begun, over := b.unsent()
		if len(denied) != 1 || len(begun) != 1 || len(over) != 1 {
			t.Fatalf("to be told are %v, %v and %v, want one each", denied, begun, over)
		}
		if again := r.unsent(now, toldRanks); len(again) != 0 {
			t.Errorf("to be told again are %v, want none", again)
		}
		r.takeBack(denied)
		b.takeBack(begun, over)
	}
}

// A quantile is in the bucket of the value that sorting finds.
func TestQuantile(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 1000} {
		counts := make([]uint32, len(bounds)+1)
		var all []time.Duration
		for range n {
			d := time.Duration(random.ExpFloat64() * float64(3*time.Millisecond))
			all = append(all, d)
			counts[bucket(d)]++
		}
		slices.SortFunc(all, cmp.Compare[time.Duration])
		for _, share := range []float64{.01, .5, .9, .99, 1} {
			want := all[min(n-1, max(0, int(share*float64(n)+.999999)-1))]
			got := quantile(counts, share)
			if b := bucket(got); b != bucket(want) {
				t.Errorf("quantile %v of %d = %v, want one as %v", share, n, got, want)
			}
		}
	}
	if got := quantile(make([]uint32, len(bounds)+1), .5); got != 0 {
		t.Errorf("quantile of nothing = %v, want 0", got)
	}
	slow := make([]uint32, len(bounds)+1)
	slow[bucket(time.Minute)] = 1
	if got := quantile(slow, .5); got != time.Second {
		t.Errorf("quantile of a minute = %v, want the last bound", got)
	}
}

// A lane has the counts of the last five minutes, and tells each once.
func TestLane(t *testing.T) {
	l := newLane(2)
	told := map[int64]uint32{}
	for s := int64(1000); s < 2000; s++ {
		for range s % 3 {
			l.add(s, 1)
		}
		news := map[int64]uint32{}
		l.unsent(s-10, func(second int64, _ int, n uint32) { news[second] = n })
		for second, n := range news {
			told[second] += n
			l.tell(second, 1, n)
		}
	}
	l.add(1000, 1) // too late
	for n, got := range l.read(1, 1700, 2000) {
		if want := uint32((1700 + n) % 3); got != want || told[int64(1700+n)] != want {
			t.Errorf("second %d has %d, and %d were told, want %d", 1700+n, got, told[int64(1700+n)], want)
		}
	}
	if got := l.sum(1000, 1300); got[0] != 0 || got[1] != 0 {
		t.Errorf("of long ago there are %v, want none", got)
	}
}

// What others have put into Redis is taken for what it is, or for nothing.
func TestNoteOfForeignFields(t *testing.T) {
	f := newFleet(nil, "shop", NewObserver())
	f.note(100, map[string]string{
		"a.B.C|0": "7", "a.B.C|1": "-1", "a.B.C|9": "1", "a.B.C|x": "1", "a.B.C": "1", "": "1", "|": "1", "|99": "1",
		"a.B.D|0": "99999999999", "a.B.E|0": "1e3", strings.Repeat("x", 2*maxField) + "|0": "1",
	})
	for name, l := range f.book.all() {
		if sum := l.sum(100, 101); name == "a.B.C" && sum[allowed] != 7 || name != "a.B.C" && !zeros(sum) {
			t.Errorf("lane %q has %v, want 7 of a.B.C and nothing else", name, sum)
		}
	}
	for n := range 2 * maxLanes {
		f.note(100, map[string]string{fmt.Sprintf("lane%d|0", n): "1"})
	}
	if n := len(f.book.all()); n > maxLanes {
		t.Errorf("there are %d lanes, want %d at most", n, maxLanes)
	}
	for _, text := range []string{"", "{", "null", "[]", `{"id":3}`, "\xff"} {
		_ = changesOf([]string{text})
	}
}

// An observer's memory is bounded: so many ids that are banned, and so many policies.
func TestObserverIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := newObserver(func() time.Time { return now })
	for n := range 10 * maxBans {
		o.bans.see(who{"limit", fmt.Sprint(n)}, now.Add(time.Duration(n+1)*time.Second))
	}
	list := o.bans.list(now)
	if len(list) != maxBans || list[0].id != fmt.Sprint(10*maxBans-1) {
		t.Errorf("there are %d bans, the first of %v, want %d, and the one that lasts longest first", len(list), list[0].who, maxBans)
	}
	for range 2 * maxPolicies {
		o.of(&rules.Policy{Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{{}}})
	}
	if n := len(*o.policies.Load()); n > maxPolicies {
		t.Errorf("%d policies are known, want %d at most", n, maxPolicies)
	}
	if n := len(o.book.all()); n != 3 {
		t.Errorf("there are %d lanes, want those of the method, its limit, and the latencies", n)
	}
}

// A call that nobody has decided is counted as failed for the limits that it may have met: not for one that is off, of another plan, or a shadow.
func TestFailuresAreOfTheLimitsThatCallsMeet(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	o := newObserver(func() time.Time { return now })
	p := &rules.Policy{Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{
		{Name: "met"}, {Name: "off"}, {Name: "pro", Plan: "pro"}, {Name: "free", Plan: "free"}, {Name: "shadow", Mode: rules.Shadow},
	}}
	d := &ratelimit.Decision{Policy: p, Off: []bool{false, true, false, false, false}}
	o.Observe(ratelimit.WithPlan(context.Background(), "pro"), d, ratelimit.ErrUnavailable)
	for i, want := range []uint32{1, 0, 1, 0, 0} {
		if got := o.of(p).limits[i].sum(now.Unix(), now.Unix()+1)[failed]; got != want {
			t.Errorf("limit %s has %d failures, want %d", p.Name(i), got, want)
		}
	}
}

// BenchmarkObserve is what counting a decision costs, of a method with three limits: one that is allowed, and one that a user is denied.
func BenchmarkObserve(b *testing.B) {
	p := &rules.Policy{Package: "example.com/orders", Type: "orders.Orders", Method: "Create"}
	for _, line := range []string{"user 3,1h", "ip 10000,1h", "global 10000,1h"} {
		d, err := rules.Parse(rules.Namespace + line)
		if err != nil {
			b.Fatal(err)
		}
		p.Limits = append(p.Limits, d.Limit)
	}
	limiter, err := ratelimit.New(memstore.New())
	if err != nil {
		b.Fatal(err)
	}
	guard := limiter.Guard(p)
	ctx := ratelimit.WithUser(ratelimit.WithIP(context.Background(), netip.MustParseAddr("192.0.2.7")), "alice")
	for _, result := range []string{"allowed", "denied"} {
		b.Run(result, func(b *testing.B) {
			d, _, err := guard.Decide(ctx)
			for result == "denied" && err == nil && d.Allowed {
				d, _, err = guard.Decide(ctx)
			}
			if err != nil {
				b.Fatal(err)
			}
			if !d.Allowed {
				err = ratelimit.ErrExceeded
			}
			o := NewObserver()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					o.Observe(ctx, &d, err)
				}
			})
		})
	}
}

// Of a program that computes the rules of its callers, the page says that what it shows of rates holds where nothing is computed.
func TestComputedRules(t *testing.T) {
	compute := func(context.Context, *rules.Policy, int) ([]rules.Rule, error) { return nil, nil }
	for want, opts := range map[bool][]ratelimit.Option{true: {ratelimit.WithRules(compute)}, false: nil} {
		limiter, err := ratelimit.New(memstore.New(), append(opts, ratelimit.WithLocks(lock.NewMemory()))...)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"user 3,1h", "concurrency 4 per=user"} {
			d, err := rules.Parse(rules.Namespace + line)
			if err != nil {
				t.Fatal(err)
			}
			limiter.Guard(&rules.Policy{Package: "example.com/shop/orders", Type: "orders.Orders", Method: "By" + d.Name, Limits: []rules.Limit{d.Limit}})
		}
		for _, l := range new(Dashboard).limitsOf(limiter.Survey()) {
			if l.Computed != (want && !l.Holds) {
				t.Errorf("%s is computed: %v, want %v of a rate", l.Directive, l.Computed, want)
			}
		}
	}
}

// A Redis that misses some calls is not said to be down, and one that decides none is, whether or not it is asked.
func TestHealth(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, test := range map[string]struct {
		health         ratelimit.Health
		decided        time.Duration // ago; 0 for never
		state, breaker string
	}{
		"well":                  {ratelimit.Health{Remote: true}, time.Second, "ok", "closed"},
		"not asked yet":         {ratelimit.Health{Remote: true}, 0, "ok", "closed"},
		"one call missed":       {ratelimit.Health{Remote: true, Down: now, Failed: now}, time.Second, "some", "closed"},
		"none decided":          {ratelimit.Health{Remote: true, Down: now, Failed: now}, 0, "down", "closed"},
		"none decided for long": {ratelimit.Health{Remote: true, Down: now, Failed: now}, 5 * time.Second, "down", "closed"},
		"at rest":               {ratelimit.Health{Remote: true, Down: now, Failed: now, Resting: []string{"a:1"}}, time.Second, "down", "open"},
		"refused":               {ratelimit.Health{Remote: true, Refused: now, Failed: now}, time.Second, "refused", "closed"},
		"in process":            {ratelimit.Health{}, time.Second, "ok", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := newObserver(func() time.Time { return now })
			if test.decided > 0 {
				o.latency.add(now.Add(-test.decided).Unix(), 3)
			}
			v := (&Dashboard{observer: o}).healthOf(test.health)
			if v.State != test.state || v.Breaker != test.breaker || v.Title == "" || v.Text == "" {
				t.Errorf("healthOf = %+v, want state %q and breaker %q", v, test.state, test.breaker)
			}
		})
	}
}

// The page says of a limit whose it is and what it does while Redis cannot decide.
func TestPlanAndOnFailAreShown(t *testing.T) {
	limiter, err := ratelimit.New(memstore.New())
	if err != nil {
		t.Fatal(err)
	}
	p := &rules.Policy{Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Find"}
	for _, line := range []string{"user 60,1m", "user 600,1m plan=pro onfail=closed"} {
		d, err := rules.Parse(rules.Namespace + line)
		if err != nil {
			t.Fatal(err)
		}
		p.Limits = append(p.Limits, d.Limit)
	}
	limiter.Guard(p)
	var got [][2]string
	for _, l := range new(Dashboard).limitsOf(limiter.Survey()) {
		got = append(got, [2]string{l.Plan, l.OnFail})
	}
	if want := [][2]string{{"", "local"}, {"pro", "closed"}}; !slices.Equal(got, want) {
		t.Errorf("plans and onfail are %q, want %q", got, want)
	}
}

// Of those who were denied in a minute, Redis has the 200 who were denied most, and of bans the 200 that last longest, however many there are.
func TestLedgerIsBounded(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	k := keysOf(redistest.Prefix(t))
	minute := k.minute(time.Now().Unix() / 60)
	e := newEntries(k)
	for n := range int64(250) {
		e.put(minute, "rank", fmt.Sprint(n), n+1)
		e.put(k.bans(), "ban", fmt.Sprint(n), time.Hour.Milliseconds()+n*1000)
	}
	e.keep()
	if _, err := e.write(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{minute, k.bans()} {
		members, err := client.ZRange(t.Context(), key, 0, -1).Result()
		if err != nil || len(members) != 200 || members[0] != "50" || members[199] != "249" {
			t.Errorf("%s has %d members, %v, want the 200 from 50 to 249", key, len(members), err)
		}
	}
}

// Instances stand on the page by their names, in whichever order Redis has heard of them.
func TestInstancesStandByName(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var heard []redis.Z
	for i, text := range []string{`{"id":"3","name":"shop-2"}`, `{"id":"1","name":"shop-1"}`, `{"id":"2","name":"shop-2"}`, "{", `{"id":"1","name":"shop-1","rules":"ab"}`} {
		heard = append(heard, redis.Z{Member: text, Score: float64(now.UnixMilli() + int64(i))})
	}
	var got []string
	for _, p := range newFleet(nil, "shop", NewObserver()).presences(heard, now) {
		got = append(got, p.Name+" "+p.ID+" "+p.Rules)
	}
	if want := []string{"shop-1 1 ab", "shop-2 2 ", "shop-2 3 "}; !slices.Equal(got, want) {
		t.Errorf("the instances are %q, want %q", got, want)
	}
}
