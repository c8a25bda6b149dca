package locktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

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
	wants     map[string]int64       // costs that they wait for
	begun     time.Time              // by the clock of the machine, by which waiters drop out
}

func newModel(semaphore bool) *model {
	return &model{semaphore: semaphore, ends: map[string]time.Duration{}, costs: map[string]int64{}, tokens: map[string]int64{},
		wants: map[string]int64{}, joined: map[string]lock.Waiter{}, begun: time.Now()}
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
		m.wants[c.Waiter] = c.Cost
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
		for _, before := range m.queue {
			if before == c.Waiter {
				break
			}
			sum += m.wants[before]
		}
		return sum <= c.Limit
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
