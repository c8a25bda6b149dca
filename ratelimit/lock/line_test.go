package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// counted is a store that counts how often it is asked, and by how many at once; asking takes a millisecond.
type counted struct {
	*Memory
	times, asking, most atomic.Int64
	err                 atomic.Pointer[error]
	panics              atomic.Bool
	stuck               atomic.Bool  // for a minute
	takes               atomic.Int64 // ns that asking takes; 0 is a millisecond
}

func newCounted() *counted { return &counted{Memory: NewMemory()} }

func (s *counted) Acquire(ctx context.Context, c Claim) (Answer, error) {
	s.times.Add(1)
	s.most.Store(max(s.most.Load(), s.asking.Add(1)))
	defer s.asking.Add(-1)
	time.Sleep(cmp.Or(time.Duration(s.takes.Load()), time.Millisecond))
	if s.stuck.Load() {
		time.Sleep(time.Minute)
	}
	if s.panics.Load() {
		panic("the store is broken")
	}
	if err := s.err.Load(); err != nil && *err != nil {
		return Answer{}, *err
	}
	return s.Memory.Acquire(ctx, c)
}

// standing is how many stand in the store's queue.
func (s *counted) standing(t *testing.T, c Claim) int64 {
	t.Helper()
	standing, err := s.Peek(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return standing.Waiting
}

// fails makes the store fail from now on, or not any more.
func (s *counted) fails(err error) { s.err.Store(&err) }

// lined runs a test of lines in a bubble, and holds that none is left.
func lined(t *testing.T, test func(*testing.T, *counted, *Locker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		l, err := New(s, WithLease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		test(t, s, l)
		synctest.Wait()
		lines.Lock()
		defer lines.Unlock()
		if len(lines.of) != 0 || lines.only != nil || lines.spare == nil || *lines.spare != (line{}) {
			t.Errorf("%d lines are left, and %v, want none, and a spare one that is empty", len(lines.of), lines.only)
		}
		if n := refusing.Load(); n != 0 {
			t.Errorf("%d lines are refused, want none, for none is left", n)
		}
	})
}

func must(t *testing.T, l *Locker) (context.Context, *Hold) {
	t.Helper()
	ctx, hold, err := l.Lock(t.Context(), "it")
	if err != nil {
		t.Fatal(err)
	}
	return ctx, hold
}

// come has n callers lock, one after the other, and returns the order in which they were served, once they all are.
func come(t *testing.T, l *Locker, n int, served func(i int)) {
	for i := range n {
		go func() {
			_, hold, err := l.Lock(t.Context(), "it")
			if err != nil {
				t.Errorf("Lock = %v, want nil", err)
				return
			}
			served(i)
			hold.Unlock()
		}()
		synctest.Wait()
	}
}

// TestLineIsServedInOrder holds that however many wait, they are served in the order in which they came, two of them stand in the store's queue, and the store
// hears of the others when it is their turn.
func TestLineIsServedInOrder(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		var mu sync.Mutex
		var order []int
		served := func(from int) func(int) {
			return func(i int) {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, from+i)
			}
		}
		come(t, l, 50, served(0))
		time.Sleep(3 * time.Second)
		come(t, l, 300, served(50))
		s.times.Store(0)
		time.Sleep(10 * time.Second)
		if n := s.times.Load(); n > 2*20+2 {
			t.Errorf("the store was asked %d times in 10s, want no more than two ask every half a second", n)
		}
		if n, m := s.standing(t, Claim{Name: "it"}), Behind(s, Claim{Name: "it"}); n != 2 || m != 348 {
			t.Errorf("%d stand in the queue and %d behind them, want 2 and 348", n, m)
		}
		s.times.Store(0)
		hold.Unlock()
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !slices.IsSorted(order) || len(order) != 350 {
			t.Errorf("%d were served, want 350 in the order in which they came: %v", len(order), order)
		}
		if n := s.times.Load(); n > 3*350 {
			t.Errorf("the store was asked %d times for 350, want no more than 3 for each", n)
		}
	})
}

// TestBurstAsksByTwos holds that of many who want a lock that nobody has, no more than two ask at once.
func TestBurstAsksByTwos(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				_, hold, err := l.Lock(t.Context(), "it")
				if err != nil {
					t.Errorf("Lock = %v, want nil", err)
					return
				}
				hold.Unlock()
			})
		}
		all.Wait()
		if n := s.most.Load(); n > 2 {
			t.Errorf("%d asked at once, want 2", n)
		}
	})
}

// TestFreeSemaphoreHasNoLine holds that callers of a semaphore with room for them all ask at once, and that those for whom it has none stand in line.
func TestFreeSemaphoreHasNoLine(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, _ *Locker) {
		sem, err := NewSemaphore(s, 100, WithLease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 300 {
			all.Go(func() {
				_, permit, err := sem.Acquire(t.Context(), "it")
				if err != nil {
					t.Errorf("Acquire = %v, want nil", err)
					return
				}
				time.Sleep(time.Minute)
				permit.Release()
			})
		}
		time.Sleep(time.Second / 4)
		if n := s.most.Load(); n < 100 {
			t.Errorf("%d asked at once, want 100 or more", n)
		}
		c := Claim{Name: "it", Limit: 100}
		if n, m := s.standing(t, c), Behind(s, c); n != ahead || m != 200-ahead {
			t.Errorf("%d stand in the queue and %d behind them, want %d and %d", n, m, ahead, 200-ahead)
		}
		s.times.Store(0)
		time.Sleep(30 * time.Second)
		if n := s.times.Load(); n > 2*ahead*61 { // who is not the first wakes the first

			t.Errorf("the store was asked %d times in 30s, want no more than %d ask every half a second, and wake the first", n, ahead)
		}
		all.Wait()
	})
}

// TestLineOfCosts holds that who wants much is not overtaken in line by who wants little, and that a limit that is raised lets in as many as it has room for.
func TestLineOfCosts(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, _ *Locker) {
		var limit atomic.Int64
		limit.Store(3)
		sem, err := NewSemaphore(s, 3, WithLease(time.Hour), WithLimit(limit.Load))
		if err != nil {
			t.Fatal(err)
		}
		_, first, err := sem.AcquireN(t.Context(), "it", 2)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int64
		got := func() []int64 {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(order)
		}
		for i := range int64(12) {
			go func() {
				_, _, err := sem.AcquireN(t.Context(), "it", 1+i%3)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			}()
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if order := got(); !slices.Equal(order, []int64{0}) { // of cost 1, for which there is room
			t.Errorf("met: %v, want the first alone", order)
		}
		limit.Store(3 + 2 + 3 + 1) // room for the next three
		time.Sleep(2 * time.Second)
		if order := got(); len(order) != 4 || slices.Max(order) > 3 { // they ask now and then, each for room that none before him needs
			t.Errorf("met: %v, want the next three", order)
		}
		limit.Store(100)
		time.Sleep(2 * time.Second)
		if order := got(); len(order) != 12 {
			t.Errorf("met: %v, want all", order)
		}
		first.Release()
	})
}

// TestGivingUpInLine holds that whoever gives up in line, at its head or behind it, is followed at once, and learns how long the lease in the way lasts.
func TestGivingUpInLine(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		var cancels []context.CancelFunc
		served := make(chan int, 6)
		for i := range 6 {
			ctx, cancel := context.WithCancel(t.Context())
			cancels = append(cancels, cancel)
			go func() {
				if _, hold, err := l.Lock(ctx, "it"); err == nil {
					served <- i
					hold.Unlock()
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("Lock = %v, want %v", err, context.Canceled)
				}
			}()
			time.Sleep(10 * time.Millisecond)
		}
		began := time.Now()
		_, _, err := l.LockWithin(t.Context(), "it", 5*time.Second)
		var busy *BusyError
		if !errors.As(err, &busy) || busy.Crowded || busy.RetryAfter < 50*time.Minute || busy.RetryAfter > time.Hour || time.Since(began) != 5*time.Second {
			t.Errorf("LockWithin at the end of the line = %v after %v, want the lease of an hour, after 5s", err, time.Since(began))
		}
		for _, i := range []int{0, 1, 4} {
			cancels[i]()
			time.Sleep(10 * time.Millisecond)
		}
		if n, m := s.standing(t, Claim{Name: "it"}), Behind(s, Claim{Name: "it"}); n != 2 || m != 1 {
			t.Errorf("%d stand in the queue and %d behind them, want 2 and 1", n, m)
		}
		began = time.Now()
		hold.Unlock()
		order := []int{<-served, <-served, <-served}
		if !slices.Equal(order, []int{2, 3, 5}) || time.Since(began) > 10*time.Millisecond {
			t.Errorf("served: %v within %v, want those who have not left, at once", order, time.Since(began))
		}
		for _, cancel := range cancels {
			cancel()
		}
	})
}

// TestTryLockBesideALine holds that who does not wait fails without asking where others of the process wait, and asks where what they know is old.
func TestTryLockBesideALine(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.Lock(ctx, "it")
		time.Sleep(10 * time.Millisecond)
		tried := func() (int64, error) {
			before := s.times.Load()
			_, _, err := l.TryLock(t.Context(), "it")
			return s.times.Load() - before, err
		}
		asked, err := tried()
		var busy *BusyError
		if !errors.As(err, &busy) || busy.RetryAfter < 50*time.Minute || asked != 0 {
			t.Errorf("TryLock = %v, and asked %d times, want it busy for an hour without asking", err, asked)
		}
		if _, _, err := l.TryLock(t.Context(), "another"); err != nil {
			t.Errorf("TryLock of another name = %v, want nil", err)
		}
		sem, _ := NewSemaphore(s, 1)
		if _, _, err := sem.TryAcquire(t.Context(), "it", 1); err != nil {
			t.Errorf("TryAcquire of the semaphore of the name = %v, want nil", err)
		}
		s.fails(ErrCrowded)
		time.Sleep(2 * time.Second)
		if asked, err := tried(); !errors.Is(err, ErrCrowded) || asked != 1 {
			t.Errorf("TryLock where those who wait are not answered = %v, and asked %d times, want it crowded", err, asked)
		}
		s.fails(nil)
		time.Sleep(time.Second)
		s.stuck.Store(true)
		time.Sleep(4 * time.Second)
		s.stuck.Store(false)
		if asked, err := tried(); !errors.Is(err, ErrBusy) || asked != 1 {
			t.Errorf("TryLock where those who wait have heard nothing for long = %v, and asked %d times, want it to ask", err, asked)
		}
		cancel()
		time.Sleep(time.Minute)
		hold.Unlock()
		if asked, err := tried(); err != nil || asked != 1 {
			t.Errorf("TryLock once nobody waits = %v, and asked %d times, want nil", err, asked)
		}
	})
}

var away = &store.Error{Class: store.Unavailable, Err: errors.New("it is away")}

// TestLineOutlastsABlip holds that a line outlasts a store that is away for less than [WaiterLife], in its order, and that where the store is away for longer all of it fails
// with the store's error together; and who comes meanwhile at once.
func TestLineOutlastsABlip(t *testing.T) {
	for _, long := range []bool{false, true} {
		lined(t, func(t *testing.T, s *counted, l *Locker) {
			_, hold := must(t, l)
			var failed, served atomic.Int64
			for range 100 {
				go func() {
					_, hold, err := l.Lock(t.Context(), "it")
					switch {
					case err == nil:
						served.Add(1)
						hold.Unlock()
					case errors.Is(err, away):
						failed.Add(1)
					default:
						t.Errorf("Lock = %v, want nil or %v", err, away)
					}
				}()
			}
			time.Sleep(time.Second)
			s.fails(away)
			s.times.Store(0)
			time.Sleep(2 * time.Second)
			if _, _, err := l.Lock(t.Context(), "it"); !errors.Is(err, away) {
				t.Errorf("Lock of who comes where the store is away = %v, want %v", err, away)
			}
			if !long {
				s.fails(nil)
			}
			time.Sleep(4 * time.Second)
			want := [2]int64{0, 0}
			if long {
				want = [2]int64{100, 0}
			}
			if got := [2]int64{failed.Load(), served.Load()}; got != want {
				t.Errorf("%d have failed, and %d were served, want %v", got[0], got[1], want)
			}
			if n := s.times.Load(); n > 200 {
				t.Errorf("the store was asked %d times, want as often as two ask", n)
			}
			s.fails(nil)
			hold.Unlock()
			time.Sleep(10 * time.Second)
			if n := failed.Load() + served.Load(); n != 100 {
				t.Errorf("%d have returned, want 100", n)
			}
		})
	}
}

// TestLineOfAStoreThatNeverAnswers holds that all fail together where the store does not answer the first of them.
func TestLineOfAStoreThatNeverAnswers(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		s.fails(away)
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, _, err := l.Lock(t.Context(), "it"); !errors.Is(err, away) {
					t.Errorf("Lock = %v, want %v", err, away)
				}
			})
		}
		all.Wait()
		if time.Since(began) > 2*time.Millisecond {
			t.Errorf("they failed after %v, want it together", time.Since(began))
		}
	})
}

// TestPanicLeavesTheLine holds that a store that panics keeps nobody waiting but him whom it has failed.
func TestPanicLeavesTheLine(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		s.panics.Store(true)
		func() {
			defer func() { recover() }()
			l.Lock(t.Context(), "it")
		}()
		s.panics.Store(false)
		_, hold := must(t, l)
		hold.Unlock()
	})
}

// TestCalledInABlip holds that whose turn it becomes while the store is away for a moment goes on waiting, as those before him do.
func TestCalledInABlip(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			go l.Lock(ctx, "it")
		}
		time.Sleep(10 * time.Millisecond)
		got := make(chan error, 1)
		go func() {
			_, hold, err := l.Lock(t.Context(), "it")
			if err == nil {
				hold.Unlock()
			}
			got <- err
		}()
		time.Sleep(time.Second)
		s.fails(away)
		time.Sleep(1100 * time.Millisecond)
		cancel()
		time.Sleep(time.Second / 2)
		s.fails(nil)
		hold.Unlock()
		if err := <-got; err != nil {
			t.Errorf("Lock = %v, want nil", err)
		}
	})
}

// TestRefusedLineFailsTogether holds that what somebody must mend fails a whole line as soon as one of it hears so.
func TestRefusedLineFailsTogether(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		refused := &store.Error{Class: store.Misconfigured, Err: errors.New("no permission")}
		var failed atomic.Int64
		for range 100 {
			go func() {
				if _, _, err := l.Lock(t.Context(), "it"); errors.Is(err, refused) {
					failed.Add(1)
				}
			}()
		}
		time.Sleep(time.Second)
		s.times.Store(0)
		s.fails(refused)
		time.Sleep(1100 * time.Millisecond)
		if n, asked := failed.Load(), s.times.Load(); n != 100 || asked > 2 {
			t.Errorf("%d have failed after %d askings, want 100 after those of the two at the head", n, asked)
		}
		s.fails(nil)
		hold.Unlock()
	})
}

// TestHastyAreNotCalled holds that a caller whose wait is over before he could be met is passed over by those behind him, waits to its end all the same, and is called where nobody else waits.
func TestHastyAreNotCalled(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		first, leave := context.WithCancel(t.Context())
		defer leave()
		served := make(chan int, 4)
		queue := func(i int, ctx context.Context, wait time.Duration) {
			go func() {
				began := time.Now()
				_, hold, err := l.lock(ctx, "it", wait)
				if err == nil {
					served <- i
					hold.Unlock()
				} else if errors.Is(err, ErrBusy) && time.Since(began) != wait {
					t.Errorf("Lock of who has %v = %v after %v, want it busy after that", wait, err, time.Since(began))
				}
			}()
			synctest.Wait()
		}
		queue(0, first, -1)
		queue(1, t.Context(), -1)
		queue(2, t.Context(), 100*time.Millisecond)
		queue(3, t.Context(), -1)
		time.Sleep(100*time.Millisecond - lead*time.Millisecond + 1)
		leave()
		time.Sleep(time.Millisecond + 1) // which an asking takes
		if n, m := s.standing(t, Claim{Name: "it"}), Behind(s, Claim{Name: "it"}); n != 2 || m != 1 {
			t.Errorf("%d stand in the queue and %d behind them, want 2 and him who has too little time", n, m)
		}
		hold.Unlock()
		if order := []int{<-served, <-served}; !slices.Equal(order, []int{1, 3}) {
			t.Errorf("served: %v, want those who have time", order)
		}
		time.Sleep(time.Second)
		_, hold = must(t, l)
		both, leave := context.WithCancel(t.Context())
		queue(0, both, -1)
		queue(1, both, -1)
		queue(2, t.Context(), 100*time.Millisecond)
		time.Sleep(100*time.Millisecond - lead*time.Millisecond + 1)
		leave()
		synctest.Wait()
		if n := Behind(s, Claim{Name: "it"}); n != 0 {
			t.Errorf("%d wait behind nobody, want him called", n)
		}
		time.Sleep(time.Second)
		hold.Unlock()
	})
}

// TestHeadLeavesInTime holds that who stands at the head of a line gives his place to the next once he has asked for the last time, and waits to his end all the same; and that a store
// that fails for good fails those, too, who were passed over.
func TestHeadLeavesInTime(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		refused := &store.Error{Class: store.Misconfigured, Err: errors.New("no permission")}
		ended := make(chan error, 4)
		wait := func(wait time.Duration) {
			go func() {
				began := time.Now()
				_, _, err := l.lock(t.Context(), "it", wait)
				if !errors.Is(err, refused) && time.Since(began) != wait {
					t.Errorf("Lock of who has %v = %v after %v, want it busy after that", wait, err, time.Since(began))
				}
				ended <- err
			}()
			synctest.Wait()
		}
		for _, d := range []time.Duration{100 * time.Millisecond, -1, 101 * time.Millisecond, -1} {
			wait(d)
		}
		time.Sleep(100*time.Millisecond - lead*time.Millisecond + 2)
		if n := Behind(s, Claim{Name: "it"}); n != 2 {
			t.Errorf("%d wait behind two who stand in the queue, want 2", n)
		}
		time.Sleep(time.Millisecond)
		if n := Behind(s, Claim{Name: "it"}); n != 1 {
			t.Errorf("%d wait once one has asked for the last time, want him who has too little time left", n)
		}
		s.fails(refused)
		hold.Unlock()
		failed := 0
		for range 4 {
			if errors.Is(<-ended, refused) {
				failed++
			}
		}
		if failed != 3 {
			t.Errorf("%d of those who wait fail as the store does, want all 3", failed)
		}
	})
}

// TestLastCallerAsks holds that where none who waits has time enough, those who came last are called: the store may be faster than it was.
func TestLastCallerAsks(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		s.takes.Store(int64(time.Second))
		var all sync.WaitGroup
		var served atomic.Int64
		for i := range 20 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 5 * time.Millisecond)
				for range 40 {
					if _, hold, err := l.LockWithin(t.Context(), "it", 100*time.Millisecond); err == nil {
						served.Add(1)
						hold.Unlock()
					}
				}
			})
		}
		time.Sleep(1100 * time.Millisecond)
		s.takes.Store(0)
		hold.Unlock()
		all.Wait()
		if served.Load() == 0 {
			t.Error("nobody is served once the store is fast again, want some")
		}
	})
}

// TestLimitsOfOneName holds that as many of a line stand in the store's queue as the largest of its limits has it, whoever came last.
func TestLimitsOfOneName(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, _ *Locker) {
		large, err := NewSemaphore(s, 100, WithLease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		small, err := NewSemaphore(s, 1, WithLease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		_, permit, err := large.AcquireN(t.Context(), "it", 100)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone, leave := context.WithCancel(ctx)
		for i := range 2*ahead + 1 {
			sem, of := large, gone
			if i >= ahead {
				of = ctx
			}
			if i%2 == 0 {
				sem = small
			}
			go sem.Acquire(of, "it")
			time.Sleep(10 * time.Millisecond)
		}
		leave()
		time.Sleep(100 * time.Millisecond)
		c := Claim{Name: "it", Limit: 100}
		if n, m := s.standing(t, c), Behind(s, c); n != ahead || m != 1 {
			t.Errorf("%d stand in the queue and %d behind them, want %d and 1", n, m, ahead)
		}
		cancel()
		synctest.Wait()
		permit.Release()
	})
}

// TestCrowdStandsTogether holds that those of a crowd who want as much of a semaphore come to stand in the store's queue with one asking, not one after the other; and those who want
// different amounts in the order in which they came.
func TestCrowdStandsTogether(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, _ *Locker) {
		sem, err := NewSemaphore(s, 100, WithLease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		_, permit, err := sem.AcquireN(t.Context(), "it", 100)
		if err != nil {
			t.Fatal(err)
		}
		for costs, want := range map[int64]int64{1: ahead, 2: 2} {
			ctx, cancel := context.WithCancel(t.Context())
			for i := range int64(20) {
				go sem.AcquireN(ctx, "it", 1+i%costs)
				time.Sleep(time.Microsecond)
			}
			time.Sleep(3200 * time.Microsecond)
			if n := s.standing(t, Claim{Name: "it", Limit: 100}); n != want {
				t.Errorf("%d of %d costs stand in the queue after three askings, want %d", n, costs, want)
			}
			cancel()
			time.Sleep(time.Second)
		}
		permit.Release()
	})
}

// TestTryBesideThoseWhoAreMet holds that who does not wait asks where others of the process are about to, none of whom was refused.
func TestTryBesideThoseWhoAreMet(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, _ *Locker) {
		sem, err := NewSemaphore(s, 100, WithLease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first is met while the second asks
			go func() {
				if _, _, err := sem.Acquire(t.Context(), "it"); err != nil {
					t.Errorf("Acquire = %v, want nil", err)
				}
			}()
			time.Sleep(600 * time.Microsecond)
		}
		if _, _, err := sem.TryAcquire(t.Context(), "it", 1); err != nil {
			t.Errorf("TryAcquire where there is room = %v, want nil", err)
		}
	})
}

// TestWhatAnAskingTakes holds that an asking which is faster than those before is what the next is expected to take, and that a slow one counts for a quarter: that a machine stops once
// sends nobody away, and a store that has become slow is soon known to be.
func TestWhatAnAskingTakes(t *testing.T) {
	l := &line{}
	for _, test := range []struct{ took, want time.Duration }{
		{8 * time.Millisecond, 8 * time.Millisecond}, // the first
		{4 * time.Millisecond, 4 * time.Millisecond},
		{1004 * time.Millisecond, 254 * time.Millisecond},
		{4 * time.Millisecond, 4 * time.Millisecond},
		{24 * time.Millisecond, 9 * time.Millisecond},
		{25 * time.Millisecond, 13 * time.Millisecond},
		{13 * time.Millisecond, 13 * time.Millisecond},
	} {
		if l.takes(test.took); l.took != test.want {
			t.Errorf("an asking that took %v: the next is expected to take %v, want %v", test.took, l.took, test.want)
		}
	}
}

// TestHastyFailTogether holds that a store that fails for good fails those at once who were passed over because they had too little time left, as it does those who were not: none of them asks it.
func TestHastyFailTogether(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		_, hold := must(t, l)
		refused := &store.Error{Class: store.Misconfigured, Err: errors.New("no permission")}
		const hasty = 10
		ended := make(chan error, hasty)
		queue := func(ctx context.Context, wait time.Duration, ended chan<- error) {
			go func() {
				_, _, err := l.lock(ctx, "it", wait)
				ended <- err
			}()
			synctest.Wait()
		}
		others := make(chan error, 3)
		first, leave := context.WithCancel(t.Context())
		queue(first, -1, others)
		queue(t.Context(), -1, others)
		for range hasty {
			queue(t.Context(), 100*time.Millisecond, ended)
		}
		queue(t.Context(), -1, others)
		time.Sleep(100*time.Millisecond - lead*time.Millisecond + 1)
		s.fails(refused)
		s.times.Store(0)
		leave() // so that the last is called, past those who have too little time, and asks
		failed := 0
		for range hasty {
			if errors.Is(<-ended, refused) {
				failed++
			}
		}
		if n := s.times.Load(); failed != hasty || n > 2 {
			t.Errorf("%d of %d who were passed over fail as the store does, after %d askings, want all after those of the two at the head", failed, hasty, n)
		}
		s.fails(nil)
		hold.Unlock()
		for range 3 {
			<-others
		}
	})
}
