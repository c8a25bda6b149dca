package redislock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// eachKind runs f for a lock and for a semaphore of 1. The faulty store asks the server through a proxy, the sound one
// asks it directly.
func eachKind(t *testing.T, f func(t *testing.T, p *redistest.Proxy, faulty, sound holder, name string)) {
	t.Parallel()
	for _, semaphore := range []bool{false, true} {
		kind := "lock"
		if semaphore {
			kind = "semaphore"
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Standalone(t)
			p := redistest.NewProxy(t, server.Addr())
			client := redis.NewClient(&redis.Options{Addr: p.Addr(), ReadTimeout: 300 * time.Millisecond, DialerRetries: 1})
			t.Cleanup(func() { client.Close() })
			faulty := newStore(t, client, redislock.WithBudget(time.Second))
			f(t, p, holder{t, faulty, semaphore}, holder{t, newStore(t, server.Client(t)), semaphore}, redistest.Prefix(t))
		})
	}
}

// holder holds names, of which one may be held at a time.
type holder struct {
	t         *testing.T
	store     lock.Store
	semaphore bool
}

// held is a lock or a permit.
type held struct {
	context.Context
	unlock func() error
	ttl    func(context.Context) (time.Duration, error)
}

func (h holder) hold(name string, wait time.Duration, opts ...lock.Option) (held, error) {
	h.t.Helper()
	opts = append(opts, lock.WithWait(wait))
	if !h.semaphore {
		ctx, hold, err := newLocker(h.t, h.store, opts...).Lock(context.Background(), name)
		return held{ctx, hold.Unlock, hold.TTL}, err
	}
	sem, err := lock.NewSemaphore(h.store, 1, opts...)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, permit, err := sem.Acquire(context.Background(), name)
	return held{ctx, permit.Release, permit.TTL}, err
}

func (h holder) must(name string, wait time.Duration, opts ...lock.Option) held {
	h.t.Helper()
	got, err := h.hold(name, wait, opts...)
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// TestAcquireReplyLost holds that an acquisition whose reply is lost is one hold, which one release ends.
func TestAcquireReplyLost(t *testing.T) {
	eachKind(t, func(t *testing.T, p *redistest.Proxy, faulty, sound holder, name string) {
		faulty.must(name, 0).unlock() // connects and loads the scripts
		p.Next(1, redistest.DropReply, "evalsha")
		h := faulty.must(name, 0)
		if _, err := sound.hold(name, 0); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("another's = %v, want %v", err, lock.ErrBusy)
		}
		if err := h.unlock(); err != nil {
			t.Errorf("release = %v, want nil", err)
		}
		sound.must(name, 0).unlock()
	})
}

// TestAcquireGivenUp holds that an acquisition which nobody learned of is taken back, and is not renewed.
func TestAcquireGivenUp(t *testing.T) {
	eachKind(t, func(t *testing.T, p *redistest.Proxy, faulty, sound holder, name string) {
		faulty.must(name, 0).unlock()
		p.Always(redistest.DropReply, "evalsha")
		if _, err := faulty.hold(name, 0); err == nil {
			t.Fatal("acquired without an answer")
		}
		p.Always(redistest.Pass)
		sound.must(name, 20*time.Second).unlock()
	})
}

// TestReleaseReplyLost holds that a release whose reply is lost is one release.
func TestReleaseReplyLost(t *testing.T) {
	eachKind(t, func(t *testing.T, p *redistest.Proxy, faulty, sound holder, name string) {
		outer := faulty.must(name, 0)
		p.Next(1, redistest.DropReply, "evalsha", "hdel")
		if err := outer.unlock(); err != nil {
			t.Errorf("release = %v, want nil", err)
		}
		sound.must(name, 0).unlock()
	})
}

// TestNestedReleaseReplyLost holds that of nested holds only the one that was let go is gone.
func TestNestedReleaseReplyLost(t *testing.T) {
	eachKind(t, func(t *testing.T, p *redistest.Proxy, faulty, sound holder, name string) {
		if faulty.semaphore {
			t.Skip("permits do not nest")
		}
		l := newLocker(t, faulty.store)
		ctx, outer, err := l.Lock(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		_, inner, err := l.Lock(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		p.Next(1, redistest.DropReply, "hdel")
		if err := inner.Unlock(); err != nil {
			t.Errorf("Unlock = %v, want nil", err)
		}
		if _, err := sound.hold(name, 0); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("another's = %v, want %v", err, lock.ErrBusy)
		}
		if err := outer.Unlock(); err != nil {
			t.Errorf("Unlock = %v, want nil", err)
		}
		sound.must(name, 0).unlock()
	})
}

// TestRenewalFails checks that a hold survives an outage shorter than its lease, and ends in a longer one. The next hold
// is renewed again.
func TestRenewalFails(t *testing.T) {
	eachKind(t, func(t *testing.T, p *redistest.Proxy, faulty, sound holder, name string) {
		const lease = 1500 * time.Millisecond
		begin := time.Now()
		h := faulty.must(name, 0, lock.WithLease(lease))
		seen := p.Seen("evalsha")
		p.Next(2, redistest.DropReply, "evalsha")
		until(t, func() bool { return p.Seen("evalsha") > seen+3 || h.Err() != nil })
		if h.Err() != nil && time.Since(begin) < lease*9/10 { // later, a slow machine may have ended it
			t.Errorf("after two lost replies the hold's context is done: %v", context.Cause(h))
		}
		p.Always(redistest.CutBefore)
		<-h.Done()
		if cause := context.Cause(h); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause = %v, want %v", cause, lock.ErrLost)
		}
		p.Always(redistest.Pass)
		if err := h.unlock(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release of what is lost = %v, want %v", err, lock.ErrLost)
		}
		for range 5 { // on a slow machine some end before their renewal
			h = faulty.must(name, 10*time.Second, lock.WithLease(lease/2))
			seen = p.Seen("evalsha")
			until(t, func() bool { return p.Seen("evalsha") > seen+3 || h.Err() != nil })
			if err := h.unlock(); err == nil {
				return
			}
		}
		t.Error("the next holds are not renewed, want them as the first")
	})
}

// TestUnlockRacesRenewal lets go while a renewal is under way: afterwards the key is gone, and stays so.
func TestUnlockRacesRenewal(t *testing.T) {
	eachKind(t, func(t *testing.T, p *redistest.Proxy, faulty, sound holder, name string) {
		h := faulty.must(name, 0, lock.WithLease(1500*time.Millisecond))
		p.Delay(30 * time.Millisecond)
		seen := p.Seen("evalsha")
		until(t, func() bool { return p.Seen("evalsha") > seen })
		if err := h.unlock(); err != nil {
			t.Errorf("release = %v, want nil", err)
		}
		sound.must(name, 0).unlock()
	})
}

// TestScriptFlush holds that a server which has forgotten the scripts is told them again.
func TestScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	for _, semaphore := range []bool{false, true} {
		h := holder{t, newStore(t, server.Client(t)), semaphore}
		for range 2 {
			got := h.must("flush", 0)
			server.Client(t).ScriptFlush(context.Background())
			if _, err := got.ttl(context.Background()); err != nil {
				t.Error(err)
			}
			server.Client(t).ScriptFlush(context.Background())
			if err := got.unlock(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestWakingLost holds that who waits is served even where no waking arrives.
func TestWakingLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	for _, semaphore := range []bool{false, true} {
		s := newStore(t, server.Client(t))
		h := holder{t, s, semaphore}
		first := h.must("deaf", 0)
		var wg sync.WaitGroup
		wg.Go(func() { h.must("deaf", 30*time.Second).unlock() })
		queue := "rl:lock:{deaf}:queue"
		if semaphore {
			queue = "rl:sem:{deaf}:queue"
		}
		until(t, func() bool { return admin.ZCard(context.Background(), queue).Val() == 2 })
		if err := admin.Do(context.Background(), "acl", "setuser", "default", "resetchannels").Err(); err != nil {
			t.Fatal(err)
		}
		admin.Do(context.Background(), "client", "kill", "type", "pubsub")
		admin.Do(context.Background(), "acl", "setuser", "default", "allchannels")
		first.unlock()
		wg.Wait()
	}
}

// TestDataLost holds that a lock which a server has lost is lost to its holder, too, and that the next token is larger all
// the same.
func TestDataLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newStore(t, server.Client(t, func(o *redis.Options) { o.ReadTimeout = 10 * time.Second }), redislock.WithBudget(10*time.Second))
	l := newLocker(t, s, lock.WithLease(time.Second))
	ctx, hold, err := l.Lock(context.Background(), "lost")
	if err != nil {
		t.Fatal(err)
	}
	server.Kill(t)
	server.Restart(t)
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause = %v, want %v", cause, lock.ErrLost)
	}
	var next *lock.Hold
	if err := redistest.Poll(func() (err error) { // a server that was down is not asked at once
		_, next, err = l.Lock(context.Background(), "lost")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if next.Token() <= hold.Token() {
		t.Errorf("token after a loss of data = %d, want more than %d", next.Token(), hold.Token())
	}
	next.Unlock()
	hold.Unlock()
}

// TestFrozenServer checks that the budget ends a call to a server that does not answer, and that a hold ends with its
// lease. The client's own timeout is longer than a test may run.
func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newStore(t, server.Client(t, func(o *redis.Options) { o.ReadTimeout = time.Hour }), redislock.WithBudget(200*time.Millisecond))
	l := newLocker(t, s, lock.WithLease(500*time.Millisecond))
	ctx, hold, err := l.Lock(context.Background(), "frozen")
	if err != nil {
		t.Fatal(err)
	}
	server.Freeze(t)
	if _, _, err := l.TryLock(context.Background(), "other"); err == nil {
		t.Error("TryLock of a frozen server succeeds, want an error")
	}
	<-ctx.Done()
	if err := hold.Unlock(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Unlock = %v, want %v", err, lock.ErrLost)
	}
	server.Resume(t)
}

// TestMaxHold checks that a hold is not renewed beyond its maximum: another caller gets the lock though nobody unlocks it.
func TestMaxHold(t *testing.T) {
	eachKind(t, func(t *testing.T, _ *redistest.Proxy, faulty, sound holder, name string) {
		h := faulty.must(name, 0, lock.WithLease(300*time.Millisecond), lock.WithMaxHold(500*time.Millisecond))
		sound.must(name, 20*time.Second).unlock()
		if cause := context.Cause(h); !errors.Is(cause, lock.ErrLost) {
			t.Errorf("cause = %v, want %v", cause, lock.ErrLost)
		}
	})
}

func TestContextEndsRenewing(t *testing.T) {
	s := newStore(t, redistest.Standalone(t).Client(t))
	l, name := newLocker(t, s, lock.WithLease(200*time.Millisecond)), redistest.Prefix(t)
	ctx, cancel := context.WithCancel(context.Background())
	held, _, err := l.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if held.Err() == nil {
		t.Error("the hold's context is not done with that of Lock")
	}
	_, next, err := l.Lock(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	next.Unlock()
}
