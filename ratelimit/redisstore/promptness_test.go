package redisstore_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slack is by how much a call may outlast its budget on a machine that does not stand still: far more than it does, and far less than a client's own timeouts.
const slack = 500 * time.Millisecond

// pulse measures for how long the machine, or the process, stands still. It is safe for concurrent use.
type pulse struct {
	mu   sync.Mutex
	beat time.Time     // the latest
	lost time.Duration // by which all beats were late
	over chan struct{}
}

// machine beats while the package's tests run.
var machine = pulse{over: make(chan struct{}), beat: time.Now()}

const pulseBeat = 5 * time.Millisecond

func (p *pulse) run() {
	for {
		select {
		case <-p.over:
			return
		case <-time.After(pulseBeat):
		}
		p.mu.Lock()
		now := time.Now()
		p.lost += lateness(now.Sub(p.beat))
		p.beat = now
		p.mu.Unlock()
	}
}

func lateness(since time.Duration) time.Duration { return max(0, since-pulseBeat) }

// stood is for how long the machine has stood still so far, with the moment that it may do so now.
func (p *pulse) stood() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost + lateness(time.Since(p.beat))
}

// duration is how long a call took, and for how long of that the machine stood still.
type duration struct{ took, stood time.Duration }

// timed runs a call.
func timed(call func()) duration {
	stood, begin := machine.stood(), time.Now()
	call()
	return duration{time.Since(begin), machine.stood() - stood}
}

// over is by how much a call outlasted its budget for no fault of the machine's. A call is woken a few times, for each of which it may have waited as long as the
// pulse has.
func (d duration) over(budget time.Duration) time.Duration { return d.took - budget - 4*d.stood }

// watched are the durations of the calls that tallies make while [TestFaults] produces a fault.
var watched atomic.Pointer[promptness]

// promptness is how long calls took, whose stores have budgets. It is safe for concurrent use.
type promptness struct {
	mu   sync.Mutex
	took []time.Duration
	over time.Duration // the most by which one of them outlasted its budget
}

// watch watches the calls of tallies until the test ends.
func watch(t *testing.T) *promptness {
	p := &promptness{}
	watched.Store(p)
	t.Cleanup(func() { watched.Store(nil) })
	return p
}

func (p *promptness) note(d duration, budget time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took, p.over = append(p.took, d.took), max(p.over, d.over(budget))
}

// hold fails the test if a call has not ended with its budget, and says how long the calls took: 99 in 100 of them at most, and the slowest.
func (p *promptness) hold(t *testing.T) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.took)
	if n == 0 {
		return ""
	}
	wantPrompt(t, p.over)
	slices.Sort(p.took)
	return fmt.Sprintf("%v, %v", p.took[n*99/100].Round(time.Millisecond/10), p.took[n-1].Round(time.Millisecond/10))
}

// wantPrompt fails the test if calls have outlasted their budgets by so much for no fault of the machine's.
func wantPrompt(t *testing.T, over time.Duration) {
	t.Helper()
	if over > slack {
		t.Errorf("a call outlasted its budget by %v on a machine that did not stand still, want %v at most", over, slack)
	}
}

// TestPulse holds that what the machine does not do is not taken for its fault, and what it does is.
func TestPulse(t *testing.T) {
	t.Parallel()
	d := timed(func() { <-time.After(2 * slack) })
	if d.took < 2*slack || d.over(0) > d.took {
		t.Errorf("a call of %v took %v, and outlasted no budget by %v", 2*slack, d.took, d.over(0))
	}
	for _, test := range []struct {
		duration
		budget, want time.Duration
	}{
		{duration{100 * time.Millisecond, 0}, 100 * time.Millisecond, 0},
		{duration{2 * time.Second, 0}, 100 * time.Millisecond, 1900 * time.Millisecond},
		{duration{5100 * time.Millisecond, 5 * time.Second}, 100 * time.Millisecond, -15 * time.Second},
	} {
		if got := test.over(test.budget); got != test.want {
			t.Errorf("%v outlasts a budget of %v by %v, want %v", test.duration, test.budget, got, test.want)
		}
	}
}
