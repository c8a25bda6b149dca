package redisstore

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRosterEndsWaitsInTime holds that one timer ends each wait when its budget does, in whatever order riders come and go.
func TestRosterEndsWaitsInTime(t *testing.T) {
	for _, test := range []struct {
		come, leave []int // ms of budgets: of those who come, at once, and of those who then have answers
		want        []int
	}{
		{come: []int{10, 20, 30}, want: []int{10, 20, 30}},
		{come: []int{10, 10, 20}, want: []int{10, 10, 20}},
		{come: []int{20, 30, 10, 25, 5}, want: []int{5, 10, 20, 25, 30}},
		{come: []int{10, 20, 30}, leave: []int{10}, want: []int{20, 30}},
		{come: []int{10, 20, 30}, leave: []int{20}, want: []int{10, 30}},
		{come: []int{10, 20, 30}, leave: []int{30, 30}, want: []int{10, 20}},
		{come: []int{10, 20}, leave: []int{20, 10}},
	} {
		t.Run(fmt.Sprint(test.come, " but ", test.leave), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWaits()
				for range 2 { // all have left when they come again
					begin := time.Now()
					w.mu.Lock()
					w.ended = nil
					var riders []*rider
					for _, ms := range test.come {
						r := &rider{budget: begin.Add(time.Duration(ms) * time.Millisecond)}
						riders = append(riders, r)
						w.add(r)
					}
					for _, ms := range test.leave {
						w.remove(riders[slices.Index(test.come, ms)])
					}
					w.mu.Unlock()
					time.Sleep(50 * time.Millisecond)
					w.mu.Lock()
					var got []int
					for _, at := range w.ended {
						got = append(got, int(at.Sub(begin)/time.Millisecond))
					}
					if !slices.Equal(got, test.want) {
						t.Errorf("waits end after %v ms, want %v", got, test.want)
					}
					if w.first != nil || w.last != nil || !w.ends.IsZero() {
						t.Errorf("the roster has %v to %v until %v, want nobody", w.first, w.last, w.ends)
					}
					w.mu.Unlock()
				}
			})
		})
	}
}

// waits is a roster that takes note of when it ends waits.
type waits struct {
	mu sync.Mutex
	roster
	ended []time.Time
}

func newWaits() *waits {
	w := new(waits)
	w.roster = newRoster(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for now := time.Now(); w.first != nil && !w.first.budget.After(now); {
			w.remove(w.first)
			w.ended = append(w.ended, now)
		}
		w.reset()
	})
	return w
}
