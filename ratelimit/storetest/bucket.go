package storetest

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// gcraModel is GCRA as its law is written, in fractions: for each window the theoretical arrival time, µs.
type gcraModel map[time.Duration]*arrival

func (m gcraModel) empty() naive { return gcraModel{} }

type arrival struct {
	tat     *big.Rat
	count   int64 // by which it was written: of another count, it is the next µs
	counted bool  // what was charged is, so that what is charged behind a call is known
	start   int64 // µs, since when it is
	charged int64 // since then
}

// live is what a rule has missing at now, by its own count; nil if nothing.
func (m gcraModel) live(now int64, r rules.Rule) *arrival {
	a, ok := m[r.Window]
	if !ok || a.tat.Cmp(ratOf(now, 1)) <= 0 {
		return nil
	}
	if a.count != r.Count {
		return &arrival{tat: m.tat(now, r), count: r.Count}
	}
	return a
}

// counts says whether what req is charged is counted: its calls may be given back, or those of another limit of the key.
func (m gcraModel) counts(now int64, req store.Request) bool {
	for _, r := range req.Rules {
		if a, ok := m[r.Window]; ok && a.counted && a.tat.Cmp(ratOf(now, 1)) > 0 {
			return true
		}
	}
	return req.Returns
}

// line is what all rules of req have counted alike, and whether they do, with the most that any of them has been charged.
func (m gcraModel) line(now int64, req store.Request) (start, charged int64, alike bool) {
	var first *arrival
	alike = true
	for _, r := range req.Rules {
		a := m.live(now, r)
		if a == nil {
			continue
		}
		if first != nil && a.charged != charged {
			alike = false
		}
		if !a.counted || first != nil && a.start != first.start {
			return now, 0, false
		}
		first, start, charged = a, a.start, max(charged, a.charged)
	}
	if first == nil {
		return now, 0, true
	}
	return start, charged, alike
}

func ratOf(n, d int64) *big.Rat { return big.NewRat(n, d) }

func ceil(r *big.Rat) int64 {
	n := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(r.Num()), r.Denom()))
	return n.Int64()
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }

// interval is what one permit of r takes to come back.
func interval(r rules.Rule) *big.Rat { return ratOf(r.Window.Microseconds(), r.Count) }

// tat is max(TAT, now) of a rule.
func (m gcraModel) tat(now int64, r rules.Rule) *big.Rat {
	at := ratOf(now, 1)
	a, ok := m[r.Window]
	if !ok {
		return at
	}
	tat := a.tat
	if a.count != r.Count {
		tat = ratOf(ceil(tat), 1)
	}
	if tat.Cmp(at) < 0 {
		return at
	}
	return tat
}

func (m gcraModel) ask(now int64, req store.Request, r rules.Rule) store.RuleOutcome {
	tat, t, burst := m.tat(now, r), interval(r), req.Capacity(r)
	late := new(big.Rat).Sub(tat, ratOf(now, 1))
	full := new(big.Rat).Mul(ratOf(burst, 1), t)
	out := store.RuleOutcome{
		Remaining:  max(0, floor(new(big.Rat).Quo(new(big.Rat).Sub(full, late), t))),
		ResetAfter: time.Duration(ceil(late)) * time.Microsecond,
	}
	if req.Cost == 0 {
		return out
	}
	if req.Cost > burst {
		out.RetryAfter = store.Never
		return out
	}
	over := new(big.Rat).Sub(new(big.Rat).Add(late, new(big.Rat).Mul(ratOf(req.Cost, 1), t)), full)
	out.RetryAfter = time.Duration(max(0, ceil(over))) * time.Microsecond
	return out
}

func (m gcraModel) charge(now int64, req store.Request) (before int64) {
	start, before, _ := m.line(now, req)
	counted := m.counts(now, req)
	for _, r := range req.Rules {
		cost := new(big.Rat).Mul(ratOf(req.Cost, 1), interval(r))
		m.put(r, arrival{new(big.Rat).Add(m.tat(now, r), cost), r.Count, counted, start, before + req.Cost})
	}
	return before
}

// put writes an arrival, of which nothing is counted where it is before the beginning of that: the clock was set back.
func (m gcraModel) put(r rules.Rule, a arrival) {
	if ceil(a.tat) < a.start {
		a.counted = false
	}
	m[r.Window] = &a
}

// giveBack takes back of a cost charged at at, behind others, what has not come back by itself: a queue drains at its front, and of what is missing the part behind
// the cost is at most all that was charged since. Of the cost no more has come back than time has passed.
func (m gcraModel) giveBack(now, at, before int64, req store.Request) {
	for _, r := range req.Rules {
		a := m.live(now, r)
		if a == nil {
			continue
		}
		all := new(big.Rat).Mul(ratOf(req.Cost, 1), interval(r))
		back := new(big.Rat).Sub(all, ratOf(max(0, now-at), 1))
		next := *a
		if behind := a.charged - before - req.Cost; req.Returns && a.counted && a.start <= at && behind >= 0 {
			left := new(big.Rat).Sub(a.tat, ratOf(now, 1))
			left.Sub(left, new(big.Rat).Mul(ratOf(behind, 1), interval(r)))
			if left.Cmp(all) >= 0 {
				left = all
				if behind == 0 {
					next.charged = before
				}
			}
			if left.Cmp(back) > 0 {
				back = left
			}
		}
		if back.Sign() > 0 {
			next.tat = new(big.Rat).Sub(a.tat, back)
			m.put(r, next)
		}
	}
}

// marks says whether a charge of req writes an arrival in another count than it was written in, and so loses what is
// below a µs of it, or what rules have counted that was not alike.
func (m gcraModel) marks(now int64, req store.Request) bool {
	for _, r := range req.Rules {
		if a, ok := m[r.Window]; ok && req.Cost > 0 && a.count != r.Count {
			return true
		}
	}
	_, _, alike := m.line(now, req)
	return req.Cost > 0 && !alike && m.counts(now, req)
}

// over says whether a store may have forgotten something at a time, which a clock that goes back then would need.
func (m gcraModel) over(latest int64) bool {
	for _, a := range m {
		if ceil(a.tat) <= latest {
			return true
		}
	}
	return false
}

// buckets are the algorithms that decide as GCRA does.
var buckets = []rules.Algorithm{rules.TokenBucket, rules.LeakyBucket, rules.GCRA}

// testBuckets compares the store with the model on random calls of two limits: any cost, rules that do not divide their
// windows and change, permits given back, and time in any step, sometimes back.
func testBuckets(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		s.Clock.Move(24 * time.Hour)
		w := newCounterWalk(s, fmt.Sprintf("buckets%d:", cases))
		w.run(rt, func(rt *rapid.T, l *rules.Limit) naive {
			l.Algorithm = rapid.SampledFrom(buckets).Draw(rt, "algo")
			return gcraModel{}
		}, drawBucket)
	})
}

// testBisimulation holds that GCRA, the leaky bucket and a token bucket that counts its tokens, in fractions, decide
// alike: the same calls, the same retry-after, the same remaining.
func testBisimulation(t *testing.T, s Subject) {
	cases := 0
	s.check(t, 0, func(rt *rapid.T) {
		cases++
		s.Clock.Move(24 * time.Hour)
		r := rules.Rule{
			Count:  rapid.Int64Range(1, 11).Draw(rt, "count"),
			Window: time.Duration(rapid.Int64Range(1000, 2_000_000).Draw(rt, "window")) * time.Microsecond,
		}
		burst := rapid.Int64Range(1, 9).Draw(rt, "burst")
		gain := ratOf(r.Count, r.Window.Microseconds()) // tokens in 1 µs
		full := ratOf(burst, 1)
		tokens, last := full, s.Clock.Now().UnixMicro()
		for range rapid.IntRange(1, 25).Draw(rt, "calls") {
			s.Clock.Move(time.Duration(rapid.Int64Range(0, r.Window.Microseconds()).Draw(rt, "step")) * time.Microsecond)
			now := s.Clock.Now().UnixMicro()
			tokens = new(big.Rat).Add(tokens, new(big.Rat).Mul(ratOf(now-last, 1), gain))
			if last = now; tokens.Cmp(full) > 0 {
				tokens = full
			}
			cost := rapid.Int64Range(1, burst).Draw(rt, "cost")
			want := store.RuleOutcome{}
			if lack := new(big.Rat).Sub(ratOf(cost, 1), tokens); lack.Sign() > 0 {
				want.RetryAfter = time.Duration(ceil(lack.Quo(lack, gain))) * time.Microsecond
			} else {
				tokens = new(big.Rat).Sub(tokens, ratOf(cost, 1))
			}
			want.Remaining = floor(tokens)
			want.ResetAfter = time.Duration(ceil(new(big.Rat).Quo(new(big.Rat).Sub(full, tokens), gain))) * time.Microsecond
			for _, algorithm := range buckets {
				req := store.Request{
					Key: fmt.Sprintf("%sbisimulation%d:%v", s.Prefix, cases, algorithm), Algorithm: algorithm,
					Rules: []rules.Rule{r}, Burst: burst, Cost: cost,
				}
				out, err := store.Take(context.Background(), s.Store, []store.Request{req}, true)
				if err != nil || out.Rules[0] != want || out.Allowed != (want.RetryAfter == 0) {
					rt.Fatalf("Take(%v) = %+v, %v, want %+v", req, out, err, want)
				}
			}
		}
	})
}

// testBucketsUnderConcurrency asks at one instant, from many callers: exactly the burst passes.
func testBucketsUnderConcurrency(t *testing.T, s Subject) {
	for _, algorithm := range buckets {
		req := store.Request{Key: s.Prefix + "concurrent" + algorithm.String(), Algorithm: algorithm, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}, Burst: 50, Cost: 1}
		allowed := make(chan store.Receipt, 300)
		each(32, 300, func(int) {
			out, err := store.Take(context.Background(), s.Store, []store.Request{req}, false)
			if err != nil {
				t.Errorf("Take: %v", err)
			} else if out.Allowed {
				allowed <- out.Receipt
			}
		})
		if n := len(allowed); n != 50 {
			t.Errorf("%v: %d of 300 calls allowed, want exactly 50", algorithm, n)
		}
	}
}
