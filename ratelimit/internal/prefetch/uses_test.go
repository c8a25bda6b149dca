package prefetch_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/prefetch"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// TestUsesOfMany has many callers use permits, and give some of them back soon and late, while batches end: what is told in the end is what was used, to the permit.
func TestUsesOfMany(t *testing.T) {
	const callers, enough, most = 16, 50_000, 1_000_000
	p := new(process)
	p.Store = prefetch.New(memstore.New(), p)
	req := store.Request{Key: "k", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 1 << 30, Window: time.Second}}, Prefetch: 20 * time.Millisecond}
	var used, ahead atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			req := req
			var late []store.Receipt
			for i := 0; i < most && ahead.Load() < enough; i++ {
				req.Cost = int64(1 + i%3)
				out, err := store.Take(t.Context(), p, []store.Request{req}, i%2 == 0)
				if err != nil || !out.Allowed {
					t.Errorf("Take = %+v, %v, want it allowed", out, err)
					return
				}
				if out.Ahead == 0 {
					continue
				}
				ahead.Add(1)
				switch {
				case i%10 == 0:
					_ = p.GiveBack(t.Context(), out.Receipt)
				case i%10 == 1:
					late = append(late, out.Receipt)
				default:
					used.Add(req.Cost)
				}
			}
			for _, receipt := range late {
				_ = p.GiveBack(t.Context(), receipt)
			}
		})
	}
	all.Wait()
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := p.told.Load(); got != used.Load() {
		t.Errorf("told of %d permits, want %d", got, used.Load())
	}
	p.empty(t)
	if ahead.Load() < enough {
		t.Errorf("%d calls passed ahead, want %d, to tell something", ahead.Load(), enough)
	}
}

// telling is what a process is told, in order. What it is told of use takes it a moment.
type telling struct {
	mu    sync.Mutex
	words []string
	used  func()
}

func (p *telling) Used(*store.Request) {
	p.used()
	p.say("used")
}

func (p *telling) Returned(*store.Request) { p.say("returned") }

func (p *telling) say(word string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words = append(p.words, word)
}

// gate is a store that fails calls of a key which is not k, once it is open.
type gate struct {
	store.Store
	asked, open chan struct{}
}

func (g *gate) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if requests[0].Key == "k" {
		return g.Store.Take(ctx, requests, detail, out)
	}
	close(g.asked)
	<-g.open
	return errors.New("closed for ever")
}

// What is given back while its use is told is told behind that: of a call that is not made, since another limit fails.
func TestUsesAreToldInOrder(t *testing.T) {
	p, g := new(telling), &gate{memstore.New(), make(chan struct{}), make(chan struct{})}
	s := prefetch.New(g, p)
	requests := []store.Request{{Key: "k", Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 1 << 24, Window: time.Minute}}, Prefetch: 10 * time.Second, Cost: 1}}
	var out store.Outcome
	for out.Ahead == 0 {
		if err := s.Take(t.Context(), requests, false, &out); err != nil || !out.Allowed {
			t.Fatalf("Take = %+v, %v, want it allowed", out, err)
		}
		runtime.Gosched()
	}
	var call sync.WaitGroup
	call.Go(func() {
		both := append(requests, store.Request{Key: "other", Rules: requests[0].Rules, Cost: 1})
		if out, err := store.Take(t.Context(), s, both, false); err == nil {
			t.Errorf("Take = %+v, want it failed", out)
		}
	})
	<-g.asked
	p.used = func() {
		close(g.open)
		for range 1000 {
			runtime.Gosched()
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	call.Wait()
	if want := []string{"used", "returned"}; !slices.Equal(p.words, want) {
		t.Errorf("told of %v, want %v", p.words, want)
	}
}

// late is a store whose batches take a while.
type late struct {
	store.Store
	back atomic.Int64 // permits that were given back to it
}

func (s *late) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	err := s.Store.Take(ctx, requests, detail, out)
	if requests[0].Ahead > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (s *late) GiveBack(ctx context.Context, receipt store.Receipt) error {
	s.back.Add(receipt.Requests[0].Cost)
	return s.Store.GiveBack(ctx, receipt)
}

// A batch that is on its way when its key is reset is never used, nor given back.
func TestResetDropsWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, behind := new(process), &late{Store: memstore.New()}
		p.Store = prefetch.New(behind, p)
		requests := []store.Request{{Key: "k", Rules: []rules.Rule{{Count: 1000, Window: time.Minute}}, Prefetch: 100 * time.Millisecond, Cost: 1}}
		for range 8 { // the fifth of which makes the batch due
			if _, err := store.Take(t.Context(), p, requests, false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if err := p.Reset(t.Context(), requests); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
		p.empty(t)
		if n := behind.back.Load(); n != 0 {
			t.Errorf("%d permits are given back that the store has forgotten", n)
		}
		if out, err := store.Take(t.Context(), p, requests, false); err != nil || !out.Allowed || out.Ahead != 0 {
			t.Errorf("Take = %+v, %v, want it allowed by the store", out, err)
		}
		_ = p.Close(t.Context())
	})
}

// What was used before a reset is told before it, and nothing of it later: the store knows of neither.
func TestUsesEnd(t *testing.T) {
	for name, test := range map[string]struct {
		end func(*prefetch.Store, []store.Request) error
		// told says whether what is given back afterwards is told.
		told bool
	}{
		"emptied": {func(s *prefetch.Store, requests []store.Request) error {
			s.Empty(context.Background(), requests)
			return nil
		}, true},
		"granted": {func(s *prefetch.Store, requests []store.Request) error {
			return s.Grant(context.Background(), requests)
		}, true},
		"reset": {func(s *prefetch.Store, requests []store.Request) error {
			return s.Reset(context.Background(), requests)
		}, false},
		"closed": {func(s *prefetch.Store, _ []store.Request) error { return s.Close(context.Background()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := new(process)
				p.Store = prefetch.New(memstore.New(), p)
				requests := []store.Request{{Key: "k", Rules: []rules.Rule{{Count: 1000, Window: time.Minute}}, Prefetch: 100 * time.Millisecond, Cost: 1}}
				var receipts []store.Receipt
				for range 1000 {
					out, err := store.Take(t.Context(), p, requests, false)
					if err != nil || !out.Allowed {
						t.Fatalf("Take = %+v, %v, want it allowed", out, err)
					}
					if out.Ahead != 0 {
						receipts = append(receipts, out.Receipt)
					}
					if time.Sleep(time.Millisecond); len(receipts) == 20 {
						break
					}
				}
				if used, left, _ := p.InHand("k"); p.told.Load()+used != 20 || left == 0 {
					t.Fatalf("told of %d permits, %d in hand are used and %d are not, want 20 in all, and some", p.told.Load(), used, left)
				}
				if used, left, _ := p.InHand("other"); used != 0 || left != 0 {
					t.Errorf("%d and %d are in hand of a key that nobody calls", used, left)
				}
				if err := test.end(p.Store, requests); err != nil {
					t.Fatal(err)
				}
				if told := p.told.Load(); told != 20 {
					t.Errorf("told of %d permits, want 20", told)
				}
				p.empty(t)
				want := int64(20)
				if test.told {
					want--
				}
				last := receipts[len(receipts)-1]
				for range 2 {
					if err := p.GiveBack(t.Context(), last); err != nil {
						t.Fatal(err)
					}
				}
				if told := p.told.Load(); told != want {
					t.Errorf("told of %d permits once one is given back, want %d", told, want)
				}
				_ = p.Close(t.Context())
			})
		})
	}
}
