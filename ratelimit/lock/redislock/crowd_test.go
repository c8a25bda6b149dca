package redislock_test

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestCrowdLeavesConnections checks that waiting callers leave some of the client's connections to the holders. No
// caller fails because all connections are in use: each gets its lock in the end. The callers want several locks,
// because those who want the same one wait in the process without a connection.
func TestCrowdLeavesConnections(t *testing.T) {
	const names = 10
	client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.PoolSize = 4 })
	wanted := redistest.Prefix(t)
	var asking atomic.Int64
	open := make(chan struct{})
	l := &listener{}
	client.AddHook(l)
	locks := newLocker(t, newStore(t, client, redislock.WithBudget(time.Minute)), lock.WithLease(time.Hour)) // no renewals
	_, hold, err := locks.Lock(context.Background(), wanted+"0")
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Refresh(context.Background()); err != nil { // loads the script
		t.Fatal(err)
	}
	l.before = func(context.Context) {
		asking.Add(1)
		<-open
	}
	var all sync.WaitGroup
	var holders [names]atomic.Int64
	for i := range 200 {
		all.Go(func() {
			n := i % names
			ctx, hold, err := locks.Lock(context.Background(), wanted+strconv.Itoa(n))
			if err != nil {
				t.Errorf("Lock = %v, want nil", err)
				return
			}
			if holders[n].Add(1) != 1 && ctx.Err() == nil {
				t.Error("two callers hold the same lock")
			}
			holders[n].Add(-1)
			hold.Unlock()
		})
	}
	until(t, func() bool { return asking.Load() == 2 })
	var refresh sync.WaitGroup
	refresh.Go(func() {
		if err := hold.Refresh(context.Background()); err != nil {
			t.Errorf("Refresh = %v, want nil", err)
		}
	})
	until(t, func() bool { return asking.Load() > 2 })
	if n := asking.Load(); n != 3 {
		t.Errorf("%d calls are in flight, want the holder's and 2 of those who wait", n)
	}
	close(open)
	refresh.Wait()
	hold.Unlock()
	all.Wait()
}

// TestLeaversLeaveConnections holds that however many waiters leave together, some of the client's connections are left to those who have the lock; and that the
// queue is empty once they have left.
func TestLeaversLeaveConnections(t *testing.T) {
	t.Parallel()
	for name, semaphore := range map[string]bool{"lock": false, "semaphore": true} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			client := server.Client(t, func(o *redis.Options) { o.PoolSize = 8 })
			var closed atomic.Bool
			var asking atomic.Int64
			open := make(chan struct{})
			client.AddHook(&listener{before: func(ctx context.Context) {
				if closed.Load() {
					asking.Add(1)
					select {
					case <-open:
					case <-ctx.Done():
					}
				}
			}})
			store := newStore(t, client, redislock.WithBudget(time.Minute))
			first := holder{t, store, semaphore}.must("wanted", 0)
			if _, err := first.ttl(context.Background()); err != nil { // loads the script
				t.Fatal(err)
			}
			c, key := lock.Claim{Name: "wanted", Lease: time.Minute}, "rl:lock:{wanted}:queue"
			if semaphore {
				c.Limit, c.Cost, key = 1, 1, "rl:sem:{wanted}:queue"
			}
			waiters := make([]lock.Waiter, 60)
			for i := range waiters {
				var err error
				if waiters[i], err = store.Join(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			claims := func(do func(lock.Waiter, lock.Claim)) {
				for i, w := range waiters {
					c.ID, c.Waiter = strconv.Itoa(i)+":0", w.ID
					do(w, c)
				}
			}
			queue := server.Client(t)
			standing := func() int64 { return queue.ZCard(context.Background(), key).Val() / 2 }
			until(t, func() bool {
				claims(func(_ lock.Waiter, c lock.Claim) { store.Acquire(context.Background(), c) })
				return standing() == 60
			})
			closed.Store(true)
			claims(func(w lock.Waiter, c lock.Claim) { w.Close(c, false) })
			var asks sync.WaitGroup
			asks.Go(func() {
				if _, err := first.ttl(context.Background()); err != nil {
					t.Errorf("TTL = %v, want nil", err)
				}
			})
			until(t, func() bool { return asking.Load() > 1 })
			if n := asking.Load(); n > 8 {
				t.Errorf("%d ask at once, want 8 at most, which is how many connections there are", n)
			}
			closed.Store(false)
			close(open)
			asks.Wait()
			until(t, func() bool { return standing() == 0 })
			first.unlock()
		})
	}
}

// TestHolderGoesPastACrowd holds that who has one thing and wants another, which is free, does not stand behind those of his process who crowd for what he has.
func TestHolderGoesPastACrowd(t *testing.T) {
	for name, semaphore := range map[string]bool{"lock": false, "semaphore": true} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.PoolSize = 4 })
			var asking atomic.Int64
			open := make(chan struct{})
			type crowd struct{}
			client.AddHook(&listener{before: func(ctx context.Context) {
				if ctx.Value(crowd{}) != nil {
					asking.Add(1)
					<-open
				}
			}})
			store, wanted := newStore(t, client, redislock.WithBudget(time.Minute)), redistest.Prefix(t)
			locks := newLocker(t, store)
			has := holder{t, store, semaphore}.must(wanted, 0)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if _, hold, err := locks.TryLock(context.WithValue(context.Background(), crowd{}, true), wanted+"crowd"); err == nil {
						hold.Unlock()
					}
				})
			}
			until(t, func() bool { return asking.Load() == 2 })
			got := make(chan error, 1)
			go func() {
				_, hold, err := locks.Lock(has, wanted+"free")
				if err == nil {
					err = hold.Unlock()
				}
				got <- err
			}()
			if err := <-got; err != nil {
				t.Errorf("Lock of what is free = %v, want nil", err)
			}
			close(open)
			all.Wait()
			has.unlock()
		})
	}
}

// TestWhatIsUrgentGoesPastACrowd holds that who nests, and a waiter who is woken while he waits for his turn to ask, do not wait for the others of their process.
func TestWhatIsUrgentGoesPastACrowd(t *testing.T) {
	server := redistest.Standalone(t)
	client := server.Client(t, func(o *redis.Options) { o.PoolSize = 4 })
	var asking atomic.Int64
	open := make(chan struct{})
	type crowd struct{}
	client.AddHook(&listener{before: func(ctx context.Context) {
		if ctx.Value(crowd{}) != nil {
			asking.Add(1)
			<-open
		}
	}})
	s, name := newStore(t, client, redislock.WithBudget(20*time.Second)), redistest.Prefix(t)
	locks := newLocker(t, s)
	ctx, hold, err := locks.Lock(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Join(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			if _, hold, err := locks.TryLock(context.WithValue(context.Background(), crowd{}, true), name+strconv.Itoa(i)); err == nil {
				hold.Unlock()
			}
		})
	}
	until(t, func() bool { return asking.Load() == 2 })
	if _, nested, err := locks.Lock(ctx, name); err != nil {
		t.Errorf("nested Lock = %v, want nil", err)
	} else {
		nested.Unlock()
	}
	c := lock.Claim{Name: name + "free", ID: "a:0", Lease: time.Minute, Waiter: w.ID}
	answered := make(chan error, 1)
	go func() {
		_, err := s.Acquire(context.Background(), c)
		answered <- err
	}()
	channel := w.ID[:strings.LastIndex(w.ID, ":")]
	if err := server.Client(t).Publish(context.Background(), channel, w.ID).Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("Acquire of who is woken = %v, want nil", err)
	}
	close(open)
	all.Wait()
	w.Close(c, true)
	s.Release(context.Background(), c)
	hold.Unlock()
}

// TestShortWaitInACrowd holds that who waits for a lock waits no longer than that for his turn to ask for it, and finds it crowded, not away, whatever the server does.
func TestShortWaitInACrowd(t *testing.T) {
	client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.PoolSize = 1 })
	var asking atomic.Int64
	open := make(chan struct{})
	client.AddHook(&listener{before: func(context.Context) {
		asking.Add(1)
		<-open
	}})
	locks, name := newLocker(t, newStore(t, client, redislock.WithBudget(time.Hour))), redistest.Prefix(t)
	var other sync.WaitGroup
	other.Go(func() {
		if _, hold, err := locks.TryLock(context.Background(), name); err == nil {
			hold.Unlock()
		}
	})
	until(t, func() bool { return asking.Load() > 0 })
	if _, _, err := locks.LockWithin(context.Background(), name+"free", time.Millisecond); !errors.Is(err, lock.ErrCrowded) {
		t.Errorf("LockWithin = %v, want %v", err, lock.ErrCrowded)
	}
	close(open)
	other.Wait()
}

// TestWakingOutlastsACrowd holds that a waiter who is woken and then cannot ask is still woken when he can.
func TestWakingOutlastsACrowd(t *testing.T) {
	server := redistest.Standalone(t)
	client := server.Client(t, func(o *redis.Options) { o.PoolSize = 1 })
	var asking atomic.Int64
	open := make(chan struct{})
	var closed atomic.Bool
	client.AddHook(&listener{before: func(context.Context) {
		if closed.Load() {
			asking.Add(1)
			<-open
		}
	}})
	s := newStore(t, client, redislock.WithBudget(time.Hour))
	w, err := s.Join(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	closed.Store(true)
	c := lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: time.Second, Next: true}
	var others sync.WaitGroup
	for range 2 { // one of those whose turn it is, and one of the others
		others.Go(func() { s.Acquire(context.Background(), c) })
	}
	until(t, func() bool { return asking.Load() == 2 })
	channel := w.ID[:strings.LastIndex(w.ID, ":")]
	if err := server.Client(t).Publish(context.Background(), channel, w.ID).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return len(w.Woken) == 1 })
	c.ID, c.Waiter, c.Next, c.Patience = "b:0", w.ID, false, 20*time.Millisecond
	if _, err := s.Acquire(context.Background(), c); !errors.Is(err, lock.ErrCrowded) {
		t.Errorf("Acquire = %v, want %v", err, lock.ErrCrowded)
	}
	if len(w.Woken) != 1 {
		t.Error("the waiter is woken no more, want it woken for the next asking")
	}
	close(open)
	others.Wait()
	w.Close(c, false)
}

// TestWaiterThatNeverStoodLeavesSilently holds that nothing is sent of a waiter who gives up before the server was asked to put him in a queue.
func TestWaiterThatNeverStoodLeavesSilently(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	l := &listener{}
	client.AddHook(l)
	s := newStore(t, client)
	c := lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: time.Second}
	for range 10 {
		w, err := s.Join(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		c.Waiter = w.ID
		w.Close(c, false)
	}
	s.Close()
	if n := l.has("evalsha") + l.has("eval"); n != 0 {
		t.Errorf("%d scripts were sent, want none", n)
	}
}

// TestDeadlineOfAFrozenServer checks that a context's deadline or cancellation ends a call to a server that does not
// answer, whatever the client's own timeouts are. The budget and the client's timeouts are longer than a test may run.
func TestDeadlineOfAFrozenServer(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*redis.Options){
		"many connections":      func(*redis.Options) {},
		"few connections":       func(o *redis.Options) { o.PoolSize = 2 },
		"ContextTimeoutEnabled": func(o *redis.Options) { o.ContextTimeoutEnabled = true },
		"a shorter timeout":     func(o *redis.Options) { o.ReadTimeout = 25 * time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client := server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Hour }, set)
			locks := newLocker(t, newStore(t, client, redislock.WithBudget(time.Hour)))
			_, hold, err := locks.Lock(context.Background(), "warm")
			if err != nil {
				t.Fatal(err)
			}
			hold.Unlock()
			server.Freeze(t)
			defer server.Resume(t)
			late, end := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer end()
			if _, _, err := locks.Lock(late, "cold"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Lock = %v, want %v", err, context.DeadlineExceeded)
			}
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(50*time.Millisecond, cancel)
			if _, _, err := locks.Lock(ctx, "cold"); !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v, want %v", err, context.Canceled)
			}
		})
	}
}

// lagging is a context whose deadline has passed, and which is not done yet.
type lagging struct {
	context.Context
	deadline time.Time
}

func (l lagging) Deadline() (time.Time, bool) { return l.deadline, true }

// TestDeadlineThatCutsADial holds that an asking whose dialing the context's deadline cuts fails by the context, which may be done a moment later, and not as a
// server that cannot be reached.
func TestDeadlineThatCutsADial(t *testing.T) {
	client := redis.NewClient(&redis.Options{DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}})
	s := newStore(t, client, redislock.WithBudget(50*time.Millisecond))
	defer client.Close() // before the store, which would try to release its claims for ten seconds
	life, end := context.WithCancel(t.Context())
	defer end()
	ctx := lagging{life, time.Now()}
	c := lock.Claim{Name: "it", ID: "a:0", Lease: time.Second}
	if _, err := s.Acquire(ctx, c); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*store.Error)) {
		t.Errorf("Acquire = %v, want %v", err, context.DeadlineExceeded)
	}
	if _, err := s.Acquire(t.Context(), c); !errors.As(err, new(*store.Error)) {
		t.Errorf("Acquire without a deadline = %v, want that the server cannot be reached", err)
	}
}

// frames is a hook that counts the calls that a command has passed to come to it.
type frames struct{ n *int }

func (*frames) DialHook(redis.DialHook) redis.DialHook { return nil }

func (*frames) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook { return nil }

func (f *frames) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		*f.n = runtime.Callers(0, make([]uintptr, 10_000))
		return next(ctx, cmd)
	}
}

// TestStoresOfOneClient holds that a program which makes a store for each request does not slow its client with each.
func TestStoresOfOneClient(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	depth := func() int {
		n := 0
		client.AddHook(&frames{&n})
		client.Ping(context.Background())
		return n
	}
	name := redistest.Prefix(t)
	use := func() {
		s, err := redislock.New(client)
		if err != nil {
			t.Fatal(err)
		}
		_, hold, err := newLocker(t, s).Lock(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(hold.Unlock(), s.Close()); err != nil {
			t.Error(err)
		}
	}
	use()
	before := depth()
	for range 100 {
		use()
	}
	if after := depth(); after > before+10 {
		t.Errorf("a command passes %d calls after 100 stores, %d after one, want as many", after, before)
	}
}

// TestNobodyWaitsForTheListening holds that waiters, of any name, do not wait for a connection to listen by that does not come: they give up in time, and get what is
// free, by asking now and then. So does Close.
func TestNobodyWaitsForTheListening(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	never, hangs := make(chan struct{}), atomic.Bool{}
	client := server.Client(t, func(o *redis.Options) {
		o.MinIdleConns = 0
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			if hangs.Load() {
				select {
				case <-never:
				case <-ctx.Done():
				}
				return nil, errors.New("no connection")
			}
			return net.Dial(network, address)
		}
		o.DialTimeout = time.Hour
	})
	s, err := redislock.New(client)
	if err != nil {
		t.Fatal(err)
	}
	l, name := newLocker(t, s, lock.WithLease(time.Minute)), redistest.Prefix(t)
	_, hold, err := l.Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	keepConnections(t, client, 8)
	hangs.Store(true)
	if _, _, err := l.LockWithin(t.Context(), name, 200*time.Millisecond); err == nil {
		t.Error("LockWithin of what another holds succeeds, want an error")
	}
	waits := make(chan error)
	go func() {
		waits <- redistest.Poll(func() error { // the server may be slow beyond the budget
			_, next, err := l.Lock(t.Context(), name)
			if err == nil {
				next.Unlock()
			}
			return err
		})
	}()
	hold.Unlock()
	if err := <-waits; err != nil {
		t.Errorf("Lock of what is free = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(never)
}

// keepConnections leaves n connections in the client's pool.
func keepConnections(t *testing.T, client *redis.Client, n int) {
	t.Helper()
	for range n {
		conn := client.Conn()
		defer conn.Close()
		if err := conn.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
