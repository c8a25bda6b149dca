package prefetch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/prefetch"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/testdata/suite"
)

// kinds are the ways to count of which permits may be taken ahead.
var kinds = []rules.Algorithm{rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.TokenBucket, rules.GCRA}

// TestNeverMore lets several processes make calls of one limit at random: in rushes and with pauses, of several costs, by themselves and beside another limit that
// denies some of them, with give-backs soon and late, with processes that stop and that are killed, over a store that answers late. Whatever they do, the calls
// that pass in any interval are no more than the limit's formula says.
func TestNeverMore(t *testing.T) {
	seeds := uint64(4)
	if suite.Long() {
		seeds = 40
	}
	for _, algorithm := range kinds {
		ahead, calls := 0, 0
		for seed := range seeds {
			t.Run(fmt.Sprint(algorithm, "/", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, algorithm, seed)
					for range 4000 {
						w.step()
					}
					w.end()
					ahead += w.ahead
					calls += len(w.uses)
				})
			})
		}
		if ahead < calls/8 {
			t.Errorf("%v: %d of %d calls passed by permits taken ahead, want more, to tell something", algorithm, ahead, calls)
		}
	}
}

// use is a call that passed.
type use struct {
	at    time.Duration
	cost  int64
	ahead bool
}

// granted is a call whose permits may be given back.
type granted struct {
	by   *prefetch.Store
	use  int
	back store.Receipt
}

// world is some processes, over one store.
type world struct {
	t         *testing.T
	rand      *rand.Rand
	behind    store.Store
	limit     store.Request
	processes []*prefetch.Store
	former    []*prefetch.Store
	phase     int
	began     time.Time
	uses      []use
	granted   []granted
	ahead     int
}

// slow is a store whose batches take a while, and land too late at times. It answers calls at once, so that they are made when they are charged.
type slow struct {
	store.Store
	t    *testing.T
	mu   sync.Mutex
	rand *rand.Rand
}

// delays are how long a batch is on its way there and back.
func (s *slow) delays() (before, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after = time.Duration(s.rand.Int64N(int64(time.Millisecond))), time.Duration(s.rand.Int64N(int64(time.Millisecond)))
	if s.rand.IntN(50) == 0 {
		after *= 300
	}
	return before, after
}

func (s *slow) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if requests[0].Ahead == 0 {
		return s.Store.Take(ctx, requests, detail, out)
	}
	if !requests[0].Returns {
		s.t.Error("a batch is taken as if nothing of it were given back")
	}
	before, after := s.delays()
	time.Sleep(before)
	defer time.Sleep(after)
	return s.Store.Take(ctx, requests, detail, out)
}

func newWorld(t *testing.T, algorithm rules.Algorithm, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, uint64(algorithm)))
	w := &world{t: t, rand: r, behind: &slow{Store: memstore.New(), t: t, rand: rand.New(rand.NewPCG(seed, 99))}, began: time.Now()}
	w.limit = store.Request{
		Key: "k", Algorithm: algorithm, Rules: []rules.Rule{{Count: 16 + r.Int64N(800), Window: time.Second}},
		Prefetch: time.Duration(1+r.IntN(500)) * time.Millisecond,
	}
	if r.IntN(3) == 0 {
		w.limit.Rules = append(w.limit.Rules, rules.Rule{Count: 3 * w.limit.Rules[0].Count, Window: 10 * time.Second})
	}
	for range 1 + r.IntN(4) {
		w.processes = append(w.processes, w.start())
	}
	return w
}

func (w *world) start() *prefetch.Store { return prefetch.New(w.behind) }

func (w *world) now() time.Duration { return time.Since(w.began) }

// step makes calls as the phase has it, in which processes are: a rush, a trickle or a lull.
func (w *world) step() {
	if w.rand.IntN(40) == 0 {
		w.phase = w.rand.IntN(3)
	}
	switch n := w.rand.IntN(1000); {
	case n < 60 && len(w.granted) > 0:
		w.giveBack()
	case n == 60:
		w.restart()
	case n == 61:
		time.Sleep(w.limit.Rules[0].Window - w.limit.Prefetch)
	default:
		w.call([]int{20, 1, 1}[w.phase])
		most := []time.Duration{time.Millisecond, 4 * time.Millisecond, w.limit.Prefetch}[w.phase]
		time.Sleep(time.Duration(w.rand.Int64N(int64(most))))
	}
}

// restart puts another process in the place of one that stops, or is killed: then what it has is lost.
func (w *world) restart() {
	i := w.rand.IntN(len(w.processes))
	w.former = append(w.former, w.processes[i])
	if w.rand.IntN(2) == 0 {
		w.close(w.processes[i])
	}
	w.processes[i] = w.start()
}

func (w *world) close(s *prefetch.Store) {
	if err := s.Close(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// call makes up to so many calls, of one process, at once.
func (w *world) call(most int) {
	s := w.processes[w.rand.IntN(len(w.processes))]
	for range 1 + w.rand.IntN(most) {
		req := w.limit
		req.Cost = []int64{1, 1, 1, 1, 1, 1, 2, 7}[w.rand.IntN(8)]
		ask := []store.Request{req}
		if w.rand.IntN(4) == 0 {
			ask = append(ask, store.Request{Key: "beside", Rules: []rules.Rule{{Count: 50, Window: time.Second}}, Cost: 1})
		}
		out, err := store.Take(context.Background(), s, ask, w.rand.IntN(4) == 0)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(out.Rules) != len(req.Rules)+len(ask)-1 {
			w.t.Fatalf("Take(%+v) answers %d rules", ask, len(out.Rules))
		}
		if !out.Allowed {
			continue
		}
		if out.Ahead&1 != 0 {
			w.ahead++
		}
		w.uses = append(w.uses, use{w.now(), req.Cost, out.Ahead&1 != 0})
		if w.rand.IntN(10) == 0 {
			w.granted = append(w.granted, granted{s, len(w.uses) - 1, out.Receipt})
		}
	}
}

// giveBack gives a call back, twice, soon or late.
func (w *world) giveBack() {
	i := w.rand.IntN(len(w.granted))
	g := w.granted[i]
	w.granted = slices.Delete(w.granted, i, i+1)
	for range 2 {
		if err := g.by.GiveBack(context.Background(), g.back); err != nil {
			w.t.Fatal(err)
		}
	}
	w.uses[g.use].cost = 0
}

// end holds what has passed against the formula, and that once nobody calls any more all of the count comes back.
func (w *world) end() {
	for _, s := range append(w.processes, w.former...) {
		w.close(s)
	}
	for _, r := range w.limit.Rules {
		w.check(r)
	}
	time.Sleep(12 * time.Second)
	all := w.limit
	all.Cost, all.Prefetch = w.limit.Rules[0].Count, 0
	out, err := store.Take(context.Background(), w.behind, []store.Request{all}, false)
	if err != nil || !out.Allowed {
		w.t.Fatalf("a call of all, when nobody has called for long: %+v, %v, want it allowed", out, err)
	}
}

func (w *world) check(r rules.Rule) {
	burst := w.limit.Algorithm == rules.TokenBucket || w.limit.Algorithm == rules.GCRA
	for i := range w.uses {
		sum := int64(0)
		for _, u := range w.uses[i:] {
			span := u.at - w.uses[i].at
			if !burst && span >= r.Window || span > 3*r.Window {
				break
			}
			most := r.Count
			if burst {
				most += int64(span) * r.Count / int64(r.Window)
			}
			if sum += u.cost; sum > most {
				w.t.Fatalf("%d passed within %v of %v, want at most %d (prefetch %v, %d processes)", sum, span, r, most, w.limit.Prefetch, len(w.processes))
			}
		}
	}
}
