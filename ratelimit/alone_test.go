package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

var silent = ratelimit.WithLogger(slog.New(slog.DiscardHandler))

// working is a store that decides until the test says that it fails.
func working() *brokenStore { return brokenBy(nil) }

var errDown = &store.Error{Class: store.Unavailable, Err: errors.New("it is down")}

// An instance that decides alone starts with its whole share, whatever the store has counted. Its own
// count persists when the store fails again within the window.
func TestAloneHasItsOwnCount(t *testing.T) {
	for _, algorithm := range []rules.Algorithm{
		rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.TokenBucket, rules.GCRA,
	} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := working()
				limit := rules.Limit{Kind: rules.User, Rules: per(10, time.Hour), Algorithm: algorithm}
				guard := limiter(t, s, silent, ratelimit.WithInstances(2)).Guard(create(limit))
				want := func(when string, n int) {
					t.Helper()
					if got := passes(t, guard, alice()); got != n {
						t.Errorf("%s: %d calls passed, want %d", when, got, n)
					}
				}
				want("store works", 10)
				s.fail(errDown)
				want("store is down", 5)
				s.fail(nil)
				want("store is back", 0)
				s.fail(errDown)
				want("store is down again", 0)
				time.Sleep(2 * time.Hour) // of the bubble's clock
				want("store is down after the window", 5)
			})
		})
	}
}

// A permit that an instance granted alone is given back to its own count.
func TestAloneTakesPermitsBack(t *testing.T) {
	s := brokenBy(errDown)
	guard := limiter(t, s, silent).Guard(create(rules.Limit{Kind: rules.User, Rules: per(1, time.Hour)}))
	permit, err := guard.Take(alice())
	if err != nil {
		t.Fatal(err)
	}
	s.fail(nil)
	if err := permit.GiveBack(alice()); err != nil {
		t.Fatal(err)
	}
	s.fail(errDown)
	if _, err := guard.Take(alice()); err != nil {
		t.Errorf("Take after the permit is back = %v, want nil", err)
	}
}

// Two processes share a store that fails and comes back at random. In any window, the store allows at
// most the limit, and each process alone at most its share, however often the store flaps.
func TestFlappingGrantsNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := flapping{
			limit:     rapid.Int64Range(1, 12).Draw(rt, "limit"),
			algorithm: rapid.SampledFrom([]rules.Algorithm{rules.SlidingLog, rules.SlidingWindow}).Draw(rt, "algorithm"),
			steps: rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
				return step{
					flips: rapid.IntRange(0, 5).Draw(rt, "flips") == 0,
					pause: time.Duration(rapid.Int64Range(0, int64(time.Second)/6).Draw(rt, "pause")),
					by:    rapid.IntRange(0, 1).Draw(rt, "by"),
				}
			}), 1, 100).Draw(rt, "steps"),
		}
		wrong := ""
		synctest.Test(t, func(t *testing.T) { wrong = f.run(t) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// step is one call of one of two processes, before which the store may fail or be back, and after a pause.
type step struct {
	flips bool
	pause time.Duration
	by    int
}

type flapping struct {
	limit     int64
	algorithm rules.Algorithm
	steps     []step
}

// run makes the calls, and says which law does not hold.
func (f flapping) run(t *testing.T) string {
	type admission struct {
		at     time.Time
		source ratelimit.Source
		by     int
	}
	s, share := working(), max(1, f.limit/2)
	policy := create(rules.Limit{Kind: rules.User, Rules: per(f.limit, time.Second), Algorithm: f.algorithm})
	var guards [2]*ratelimit.Guard
	for i := range guards {
		guards[i] = limiter(t, s, silent, ratelimit.WithInstances(2)).Guard(policy)
	}
	var admissions []admission
	within := func(counts func(admission) bool) (n int64) {
		for _, a := range admissions {
			if time.Since(a.at) < time.Second && counts(a) {
				n++
			}
		}
		return n
	}
	for _, step := range f.steps {
		if step.flips && s.err() == nil {
			s.fail(errDown)
		} else if step.flips {
			s.fail(nil)
		}
		time.Sleep(step.pause)
		d, _, err := guards[step.by].Decide(alice())
		if err != nil {
			return err.Error()
		}
		if !d.Allowed {
			continue
		}
		source := d.Limits[0].Source
		admissions = append(admissions, admission{time.Now(), source, step.by})
		shared := within(func(a admission) bool { return a.source == ratelimit.SourceStore })
		alone := within(func(a admission) bool { return a.by == step.by && a.source == ratelimit.SourceLocal })
		if shared > f.limit || alone > share {
			return fmt.Sprintf("%d through the store and %d alone in a window, want at most %d and %d", shared, alone, f.limit, share)
		}
	}
	return ""
}

// The shares of all instances are no more than the limit, unless that is less than one each.
func TestSharesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count, instances := rapid.Int64Range(1, 40).Draw(t, "count"), rapid.IntRange(1, 12).Draw(t, "instances")
		passed := int64(0)
		for range instances {
			l, err := ratelimit.New(failing(store.Unavailable), silent, ratelimit.WithInstances(instances))
			if err != nil {
				t.Fatal(err)
			}
			guard := l.Guard(create(rules.Limit{Kind: rules.User, Rules: per(count, time.Hour)}))
			for {
				d, _, err := guard.Decide(alice())
				if err != nil {
					t.Fatal(err)
				}
				if d.Limits[0].Instances != instances {
					t.Fatalf("the decision names %d instances, want %d", d.Limits[0].Instances, instances)
				}
				if !d.Allowed {
					break
				}
				passed++
			}
		}
		if most := max(count, int64(instances)); passed > most || passed <= count-int64(instances) {
			t.Errorf("%d instances let %d of %d through, want at most %d", instances, passed, count, most)
		}
	})
}

// fleetStore is a store that counts its members as the test says, and how often it was asked.
type fleetStore struct {
	*brokenStore

	mu      sync.Mutex
	members int
	asked   []string // prefixes and members
}

func (s *fleetStore) Attend(_ context.Context, prefix, member string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, prefix+" "+member)
	return s.members, nil
}

func (s *fleetStore) set(members int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = members
}

func (s *fleetStore) attended() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// instances breaks the store for one call, and returns by how many it was divided.
func (s *fleetStore) instances(t *testing.T, guard *ratelimit.Guard) int {
	t.Helper()
	s.fail(errDown)
	defer func() { s.fail(nil) }()
	d, _, err := guard.Decide(ratelimit.WithUser(context.Background(), "carol"))
	if err != nil {
		t.Fatal(err)
	}
	return d.Limits[0].Instances
}

func TestInstancesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &fleetStore{brokenStore: working(), members: 4}
		guard := limiter(t, s, ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Guard(
			create(rules.Limit{Kind: rules.User, Rules: per(1e4, time.Second)}))
		calls := func(d time.Duration) {
			t.Helper()
			for end := time.Now().Add(d); ; time.Sleep(time.Second) {
				if _, err := guard.Take(alice()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if !time.Now().Before(end) {
					return
				}
			}
		}
		want := func(when string, n int) {
			t.Helper()
			if got := s.instances(t, guard); got != n {
				t.Errorf("%s: %d instances, want %d", when, got, n)
			}
		}
		want("before anybody is counted", 1)
		if n := s.attended(); n != 0 {
			t.Errorf("attended %d times without a call that the store has decided, want 0", n)
		}
		calls(0)
		want("at once", 4)
		calls(20 * time.Second)
		if n := s.attended(); n != 5 {
			t.Errorf("attended %d times in 20s, want 5", n)
		}
		s.set(6)
		calls(5 * time.Second)
		want("when some have come", 6)
		s.set(1) // as a store that has lost its keys would say
		calls(40 * time.Second)
		want("when all seem to be gone", 6)
		calls(2 * store.Attendance)
		want("when all have been gone for long", 1)
		if n := strings.Count(log.String(), "instances="); n == 0 {
			t.Errorf("the log does not say by how many limits are divided:\n%s", &log)
		}
	})
}

// Who says how many there are is believed, and nobody is counted.
func TestInstancesAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, opts := range map[string][]ratelimit.Option{
			"told":   {silent, ratelimit.WithInstances(3)},
			"closed": {silent},
		} {
			limit := rules.Limit{Kind: rules.User, Rules: per(100, time.Hour)}
			if name == "closed" {
				limit.OnFail = rules.FailClosed
			}
			s := &fleetStore{brokenStore: working(), members: 4}
			guard := limiter(t, s, opts...).Guard(create(limit))
			if _, err := guard.Take(alice()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := s.attended(); n != 0 {
				t.Errorf("%s: attended %d times, want 0", name, n)
			}
			if name == "told" && s.instances(t, guard) != 3 {
				t.Errorf("%d instances, want 3", s.instances(t, guard))
			}
		}
	})
}

// The prefixes of limits are counted each on its own, and each limiter is one member.
func TestFleetsByPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fleetStore{brokenStore: working(), members: 2}
		policy := create(
			rules.Limit{Kind: rules.User, Rules: per(100, time.Hour)},
			rules.Limit{Kind: rules.IP, Rules: per(100, time.Hour), Prefix: "other"},
			rules.Limit{Kind: rules.Global, Rules: per(100, time.Hour)})
		for range 2 {
			if _, err := limiter(t, s, silent).Guard(policy).Take(alice()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		seen := make(map[string]bool)
		prefixes := make(map[string]int)
		for _, one := range s.asked {
			prefix, member, _ := strings.Cut(one, " ")
			prefixes[prefix]++
			seen[member] = true
		}
		if len(s.asked) != 4 || prefixes["rl"] != 2 || prefixes["other"] != 2 || len(seen) != 2 {
			t.Errorf("attended %q, want each prefix by each of two members once", s.asked)
		}
	})
}
