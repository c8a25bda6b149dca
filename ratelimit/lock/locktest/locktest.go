// Package locktest has the tests that every [lock.Store] passes.
package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// Bench is where a store is tested.
type Bench struct {
	Store lock.Store
	// Prefix is what names begin with, so that they meet no other test's.
	Prefix string
	// Pass lets d pass for all that is kept of name.
	Pass func(t testing.TB, name string, d time.Duration)
}

// Run runs the tests on benches that open makes.
func Run(t *testing.T, open func(t *testing.T) *Bench) {
	for name, test := range map[string]func(*testing.T, *Bench){
		"Model":          testModel,
		"Exclusion":      testExclusion,
		"Capacity":       testCapacity,
		"Order":          testOrder,
		"Reentrancy":     testReentrancy,
		"Expiry":         testExpiry,
		"Validation":     testValidation,
		"GivingUp":       testGivingUp,
		"DeadWaiter":     testDeadWaiter,
		"LowerLimit":     testLowerLimit,
		"LargeCostFirst": testLargeCostFirst,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

var ctx = context.Background()

// unit is what times are drawn in: far more than a test takes, so that no lease ends by itself.
const unit = 10 * time.Minute

// testModel asks store and model the same, and holds that they answer the same.
func testModel(t *testing.T, b *Bench) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m := newModel(rapid.Bool().Draw(rt, "semaphore"))
		defer m.part()
		name := fmt.Sprintf("%smodel%d{}:%%", b.Prefix, runs)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			m.step(rt, t, b, name)
		}
	})
}

// model is what a store is to do, written as plainly as possible: holds by their ends, and waiters in the order in which they came.
type model struct {
	semaphore bool
	now       time.Duration
	ends      map[string]time.Duration // of live holds
	costs     map[string]int64
	tokens    map[string]int64
	last      int64
	joined    map[string]lock.Waiter // by the ID of the hold that they wait for
	queue     []string               // IDs of waiters
	begun     time.Time              // by the clock of the machine, by which waiters drop out
}

func newModel(semaphore bool) *model {
	return &model{semaphore: semaphore, ends: map[string]time.Duration{}, costs: map[string]int64{}, tokens: map[string]int64{},
		joined: map[string]lock.Waiter{}, begun: time.Now()}
}

// waiter is the ID of who waits for a hold.
func (m *model) waiter(rt *rapid.T, b *Bench, id string) string {
	if _, ok := m.joined[id]; !ok {
		w, err := b.Store.Join(ctx)
		if err != nil {
			rt.Fatal(err)
		}
		m.joined[id] = w
	}
	return m.joined[id].ID
}

func (m *model) part() {
	for _, w := range m.joined {
		w.Close(lock.Claim{Waiter: w.ID}, true)
	}
}

func (m *model) leave(waiter string) {
	m.queue = slices.DeleteFunc(m.queue, func(w string) bool { return w == waiter })
}

// first says whether waiter, or who does not wait, is not to let others go first.
func (m *model) first(waiter string) bool { return len(m.queue) == 0 || m.queue[0] == waiter }

func (m *model) step(rt *rapid.T, t *testing.T, b *Bench, name string) {
	owner := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "owner")
	c := lock.Claim{Name: name, ID: owner + ":" + rapid.SampledFrom([]string{"0", "1", "2"}).Draw(rt, "number")}
	c.Lease = time.Duration(rapid.IntRange(1, 5).Draw(rt, "lease")) * unit
	if m.semaphore {
		c.Limit = int64(rapid.IntRange(1, 5).Draw(rt, "limit"))
		c.Cost = int64(c.ID[0]-'a') + 1
	} else if rapid.Bool().Draw(rt, "nested") {
		c.Outer = owner + ":0"
		if c.Outer == c.ID {
			c.Outer = ""
		}
	}
	if c.Outer == "" && rapid.Bool().Draw(rt, "waits") {
		c.Waiter = m.waiter(rt, b, c.ID)
	}
	if time.Since(m.begun) > lock.WaiterLife/2 {
		rt.Skip("it takes so long that waiters drop out")
	}
	switch op := rapid.SampledFrom([]string{"acquire", "acquire", "renew", "ask", "release", "pass"}).Draw(rt, "op"); op {
	case "acquire":
		m.acquire(rt, b, c)
	case "renew":
		m.renew(rt, b, c)
	case "ask":
		c.Lease = 0
		m.renew(rt, b, c)
	case "release":
		got, err := b.Store.Release(ctx, c)
		if _, want := m.ends[c.ID]; err != nil || got != want {
			rt.Fatalf("Release(%s) = %v, %v, want %v", c.ID, got, err, want)
		}
		delete(m.ends, c.ID)
		m.leave(c.Waiter)
	case "pass":
		d := time.Duration(rapid.IntRange(1, 4).Draw(rt, "units"))*unit - unit/2
		b.Pass(t, name, d)
		m.now += d
		m.queue = nil
		for id, end := range m.ends {
			if end <= m.now {
				delete(m.ends, id)
			}
		}
	}
}

func (m *model) acquire(rt *rapid.T, b *Bench, c lock.Claim) {
	got, err := b.Store.Acquire(ctx, c)
	want := m.meets(c)
	if err != nil || got.Held != want {
		rt.Fatalf("Acquire(%+v) = %+v, %v, want held %v of %v", c, got, err, want, m.ends)
	}
	if !want {
		m.stand(rt, got, c)
		return
	}
	m.leave(c.Waiter)
	token, again := m.tokens[c.ID], m.has(c.ID)
	switch {
	case m.semaphore:
	case again:
	case c.Outer != "":
		token = m.tokens[c.Outer]
	default:
		if got.Token <= m.last {
			rt.Fatalf("Acquire(%s) has token %d, want more than %d", c.ID, got.Token, m.last)
		}
		m.last, token = got.Token, got.Token
	}
	if !m.semaphore && got.Token != token {
		rt.Fatalf("Acquire(%s) has token %d, want %d", c.ID, got.Token, token)
	}
	m.tokens[c.ID] = token
	m.hold(c)
	m.left(rt, got, c)
}

// stand keeps the place of who waits for c, or gives it the last one.
func (m *model) stand(rt *rapid.T, got lock.Answer, c lock.Claim) {
	if c.Waiter != "" && !slices.Contains(m.queue, c.Waiter) {
		m.queue = append(m.queue, c.Waiter)
	}
	if want := c.Waiter != "" && m.first(c.Waiter); got.First != want {
		rt.Fatalf("Acquire(%+v) = %+v, want first %v of %v", c, got, want, m.queue)
	}
}

func (m *model) has(id string) bool { _, ok := m.ends[id]; return ok }

// meets says whether c can be met.
func (m *model) meets(c lock.Claim) bool {
	switch {
	case m.has(c.ID):
		return true
	case m.semaphore:
		sum := c.Cost
		for id := range m.ends {
			sum += int64(id[0]-'a') + 1
		}
		return sum <= c.Limit && m.first(c.Waiter)
	case c.Outer != "":
		return m.has(c.Outer)
	}
	return len(m.ends) == 0 && m.first(c.Waiter)
}

func (m *model) hold(c lock.Claim) {
	end := max(m.ends[c.ID], m.now+c.Lease)
	if !m.semaphore {
		for _, other := range m.ends {
			end = max(end, other)
		}
		for id := range m.ends {
			m.ends[id] = end
		}
	}
	m.ends[c.ID] = end
}

func (m *model) renew(rt *rapid.T, b *Bench, c lock.Claim) {
	got, err := b.Store.Renew(ctx, c)
	if want := m.has(c.ID); err != nil || got.Held != want {
		rt.Fatalf("Renew(%s) = %+v, %v, want held %v", c.ID, got, err, want)
	}
	if got.Held {
		if c.Lease > 0 {
			m.hold(c)
		}
		m.left(rt, got, c)
	}
}

// left holds that an answer's lease ends when the model's does, but for the time that the test takes.
func (m *model) left(rt *rapid.T, got lock.Answer, c lock.Claim) {
	want := m.ends[c.ID] - m.now
	if got.Left > want || got.Left < want-unit/4 {
		rt.Fatalf("%s has %v left, want %v", c.ID, got.Left, want)
	}
}

// testExclusion lets many work under one lock, some of whom try and some of whom wait.
func testExclusion(t *testing.T, b *Bench) {
	l := newLocker(t, b.Store)
	name := b.Prefix + "exclusion"
	var inside, sum, last atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				var hold *lock.Hold
				var err error
				if i%4 == 0 {
					for hold == nil { // overtakes nobody: others are served as soon as they wait
						if _, hold, err = l.TryLock(ctx, name); err != nil && !errors.Is(err, lock.ErrBusy) {
							t.Error(err)
							return
						}
						if hold == nil {
							_, hold, err = l.Lock(ctx, name)
						}
					}
				} else {
					_, hold, err = l.Lock(ctx, name)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d inside, want 1", n)
				}
				if hold.Token() <= last.Swap(hold.Token()) {
					t.Error("a token is not larger than the one before")
				}
				sum.Add(1)
				inside.Add(-1)
				if err := hold.Unlock(); err != nil {
					t.Errorf("Unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if sum.Load() != 160 {
		t.Errorf("%d times inside, want 160", sum.Load())
	}
}

// testCapacity lets many work under one semaphore.
func testCapacity(t *testing.T, b *Bench) {
	s := newSemaphore(t, b.Store, 5)
	name := b.Prefix + "capacity"
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 12 {
		cost := int64(i%3) + 1
		wg.Go(func() {
			for range 10 {
				_, p, err := s.AcquireN(ctx, name, cost)
				if err != nil {
					t.Error(err)
					return
				}
				n := inside.Add(cost)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				inside.Add(-cost)
				if err := p.Release(); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if most.Load() > 5 {
		t.Errorf("%d inside, want at most 5", most.Load())
	}
}

// stand makes waiters with these names stand in c's queue, one after the other.
func stand(t *testing.T, b *Bench, c lock.Claim, n int) []lock.Waiter {
	t.Helper()
	waiters := make([]lock.Waiter, n)
	for i := range waiters {
		var err error
		if waiters[i], err = b.Store.Join(ctx); err != nil {
			t.Fatal(err)
		}
		c.ID, c.Waiter = fmt.Sprintf("waiter%d:0", i), waiters[i].ID
		mustAcquire(t, b, c, false)
	}
	return waiters
}

func mustAcquire(t *testing.T, b *Bench, c lock.Claim, want bool) lock.Answer {
	t.Helper()
	a, err := b.Store.Acquire(ctx, c)
	if err != nil || a.Held != want {
		t.Fatalf("Acquire(%s) = %+v, %v, want held %v", c.ID, a, err, want)
	}
	return a
}

func mustRelease(t *testing.T, b *Bench, c lock.Claim) {
	t.Helper()
	if held, err := b.Store.Release(ctx, c); err != nil || !held {
		t.Fatalf("Release(%s) = %v, %v, want true", c.ID, held, err)
	}
}

// testOrder holds that a lock goes to whoever waits for the longest time, and that he is woken.
func testOrder(t *testing.T, b *Bench) {
	c := lock.Claim{Name: b.Prefix + "order", ID: "holder:0", Lease: unit}
	mustAcquire(t, b, c, true)
	waiters := stand(t, b, c, 3)
	mustRelease(t, b, c)
	for i, w := range waiters {
		<-w.Woken
		stranger := c
		stranger.ID = "stranger:0"
		mustAcquire(t, b, stranger, false)
		for j := len(waiters) - 1; j >= i; j-- {
			turn := c
			turn.ID, turn.Waiter = fmt.Sprintf("waiter%d:0", j), waiters[j].ID
			mustAcquire(t, b, turn, j == i)
		}
		turn := c
		turn.ID = fmt.Sprintf("waiter%d:0", i)
		w.Close(turn, true)
		mustRelease(t, b, turn)
	}
	mustAcquire(t, b, c, true)
}

// testDeadWaiter holds that a waiter who does not ask any more is passed over.
func testDeadWaiter(t *testing.T, b *Bench) {
	c := lock.Claim{Name: b.Prefix + "dead", ID: "holder:0", Lease: unit}
	mustAcquire(t, b, c, true)
	dead := stand(t, b, c, 1)[0]
	mustRelease(t, b, c)
	c.ID = "stranger:0"
	mustAcquire(t, b, c, false)
	b.Pass(t, c.Name, lock.WaiterLife+time.Second)
	mustAcquire(t, b, c, true)
	dead.Close(lock.Claim{Name: c.Name, ID: "waiter0:0", Lease: unit, Waiter: dead.ID}, false)
}

// testLargeCostFirst holds that who wants much of a semaphore is not overtaken by who wants little.
func testLargeCostFirst(t *testing.T, b *Bench) {
	c := lock.Claim{Name: b.Prefix + "large", ID: "a:0", Lease: unit, Limit: 3, Cost: 2}
	mustAcquire(t, b, c, true)
	large := c
	large.Cost = 3
	w := stand(t, b, large, 1)[0]
	small := c
	small.ID, small.Cost = "small:0", 1
	mustAcquire(t, b, small, false)
	mustRelease(t, b, c)
	<-w.Woken
	large.ID, large.Waiter = "waiter0:0", w.ID
	mustAcquire(t, b, large, true)
	w.Close(large, true)
}

// testLowerLimit holds that a smaller limit ends no hold, and gives out none until there is room.
func testLowerLimit(t *testing.T, b *Bench) {
	c := lock.Claim{Name: b.Prefix + "lower", Lease: unit, Limit: 3, Cost: 1}
	for _, id := range []string{"a:0", "b:0", "c:0"} {
		c.ID = id
		mustAcquire(t, b, c, true)
	}
	c.Limit = 2
	for _, id := range []string{"a:0", "b:0", "c:0"} {
		c.ID = id
		if a, err := b.Store.Renew(ctx, c); err != nil || !a.Held {
			t.Errorf("Renew(%s) under a smaller limit = %+v, %v, want it held", id, a, err)
		}
	}
	mustRelease(t, b, c)
	c.ID = "d:0"
	mustAcquire(t, b, c, false)
	c.ID = "b:0"
	mustRelease(t, b, c)
	c.ID = "d:0"
	mustAcquire(t, b, c, true)
}

// testReentrancy nests holds and ends them in another order.
func testReentrancy(t *testing.T, b *Bench) {
	l, other := newLocker(t, b.Store), newLocker(t, b.Store, lock.WithWait(0))
	name := b.Prefix + "reentrancy"
	outer, first, err := l.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	var holds []*lock.Hold
	inner := outer
	for i := range 5 {
		var h *lock.Hold
		locker := l
		if i%2 == 1 {
			locker = other
		}
		if inner, h, err = locker.Lock(inner, name); err != nil {
			t.Fatal(err)
		}
		if lock.Token(inner) != first.Token() {
			t.Errorf("nested token = %d, want %d", lock.Token(inner), first.Token())
		}
		holds = append(holds, h)
	}
	for _, h := range append(holds[2:], holds[0], first, holds[1]) {
		if _, _, err := other.Lock(ctx, name); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("Lock of another while %d nest = %v, want %v", len(holds), err, lock.ErrBusy)
		}
		if err := h.Unlock(); err != nil {
			t.Errorf("Unlock = %v, want nil", err)
		}
		if err := h.Unlock(); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("second Unlock = %v, want %v", err, lock.ErrNotHeld)
		}
	}
	if cause := context.Cause(outer); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("cause of the context after Unlock = %v, want %v", cause, lock.ErrReleased)
	}
	_, again, err := other.Lock(context.WithoutCancel(inner), name)
	if err != nil {
		t.Fatalf("Lock after all have let go = %v, want nil", err)
	}
	if again.Token() <= first.Token() {
		t.Errorf("next token = %d, want more than %d", again.Token(), first.Token())
	}
	again.Unlock()
}

// testExpiry holds that a lease ends, that what is lost cannot be brought back, and that a late release frees nobody's lock.
func testExpiry(t *testing.T, b *Bench) {
	l := newLocker(t, b.Store, lock.WithLease(unit))
	name := b.Prefix + "expiry"
	held, hold, err := l.TryLock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := hold.TTL(ctx); err != nil || left > unit || left < unit-unit/4 {
		t.Errorf("TTL = %v, %v, want %v", left, err, unit)
	}
	b.Pass(t, name, unit+time.Second)
	_, next, err := l.TryLock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if next.Token() <= hold.Token() {
		t.Errorf("token after a lease has ended = %d, want more than %d", next.Token(), hold.Token())
	}
	if _, _, err := l.Lock(held, name); !errors.Is(err, lock.ErrLost) {
		t.Errorf("nested Lock of a lost lock = %v, want %v", err, lock.ErrLost)
	}
	if err := hold.Refresh(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Refresh of a lost lock = %v, want %v", err, lock.ErrLost)
	}
	if cause := context.Cause(held); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause of a lost lock's context = %v, want %v", cause, lock.ErrLost)
	}
	if err := hold.Unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock of a lost lock = %v, want %v", err, lock.ErrLost)
	}
	if _, err := next.TTL(ctx); err != nil {
		t.Errorf("TTL of the next holder = %v, want nil", err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// testGivingUp holds that who gives up is not in the way.
func testGivingUp(t *testing.T, b *Bench) {
	l, hasty := newLocker(t, b.Store), newLocker(t, b.Store, lock.WithWait(20*time.Millisecond))
	name := b.Prefix + "givingup"
	_, hold, err := l.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	var busy *lock.BusyError
	if _, _, err := hasty.Lock(ctx, name); !errors.As(err, &busy) || busy.RetryAfter <= 0 {
		t.Errorf("Lock = %v, want a %T with a lease", err, busy)
	}
	cause := errors.New("shutting down")
	short, cancel := context.WithTimeoutCause(ctx, 20*time.Millisecond, cause)
	defer cancel()
	if _, _, err := l.Lock(short, name); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, cause) {
		t.Errorf("Lock = %v, want %v and %v", err, context.DeadlineExceeded, cause)
	}
	if _, _, err := l.Lock(short, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock with a context that is done = %v, want %v", err, context.DeadlineExceeded)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
	_, hold, err = l.Lock(ctx, name) // as soon as those who gave up have left
	if err != nil {
		t.Fatal(err)
	}
	hold.Unlock()
}

func testValidation(t *testing.T, b *Bench) {
	good := lock.Claim{Name: b.Prefix + "validation", ID: "a:0", Lease: time.Second}
	for name, change := range map[string]func(*lock.Claim){
		"lease 0":          func(c *lock.Claim) { c.Lease = 0 },
		"lease -1s":        func(c *lock.Claim) { c.Lease = -time.Second },
		"lease 100µs":      func(c *lock.Claim) { c.Lease = 100 * time.Microsecond },
		"lease 10.5ms":     func(c *lock.Claim) { c.Lease = 10500 * time.Microsecond },
		"lease of 2^63 ns": func(c *lock.Claim) { c.Lease = 1<<63 - 1 },
		"no ID":            func(c *lock.Claim) { c.ID = "" },
		"limit -1":         func(c *lock.Claim) { c.Limit = -1 },
		"cost 0":           func(c *lock.Claim) { c.Limit = 1 },
		"cost 1001":        func(c *lock.Claim) { c.Limit, c.Cost = 2000, 1001 },
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			change(&c)
			_, err := b.Store.Acquire(ctx, c)
			var failed *store.Error
			if !errors.As(err, &failed) || failed.Class != store.Misconfigured {
				t.Errorf("Acquire = %v, want an error of class %v", err, store.Misconfigured)
			}
		})
	}
}

func newLocker(t *testing.T, s lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newSemaphore(t *testing.T, s lock.Store, limit int64, opts ...lock.Option) *lock.Semaphore {
	t.Helper()
	l, err := lock.NewSemaphore(s, limit, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
