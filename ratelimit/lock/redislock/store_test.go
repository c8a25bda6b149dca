package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

func newStore(t testing.TB, client redis.UniversalClient, opts ...redislock.Option) *redislock.Store {
	t.Helper()
	s, err := redislock.New(client, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newLocker(t testing.TB, s lock.Store, opts ...lock.Option) *lock.Locker {
	t.Helper()
	l, err := lock.New(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestHandOver(t *testing.T) {
	s := newStore(t, redistest.Standalone(t).Client(t))
	l, name := newLocker(t, s), redistest.Prefix(t)
	ctx, hold, err := l.TryLock(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.TryLock(context.Background(), name); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("second TryLock = %v, want %v", err, lock.ErrBusy)
	}
	inner, nested, err := l.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if lock.Token(inner) != hold.Token() {
		t.Errorf("nested token = %d, want %d", lock.Token(inner), hold.Token())
	}
	got := make(chan int64)
	go func() {
		_, hold, err := l.Lock(context.Background(), name)
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		token := hold.Token()
		if err := hold.Unlock(); err != nil {
			t.Error(err)
		}
		got <- token
	}()
	if err := nested.Unlock(); err != nil {
		t.Error(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { hold.Unlock() })
	if next := <-got; next <= hold.Token() {
		t.Errorf("next token = %d, want more than %d", next, hold.Token())
	}
	if err := hold.Unlock(); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("second Unlock = %v, want %v", err, lock.ErrNotHeld)
	}
	if ctx.Err() == nil {
		t.Error("the context of a hold that was let go is not done")
	}
}

// classOf is the class of a store's error, and none for others.
func classOf(err error) store.Class {
	var failed *store.Error
	if errors.As(err, &failed) {
		return failed.Class
	}
	return 0
}
