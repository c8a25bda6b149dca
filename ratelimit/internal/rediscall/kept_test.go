package rediscall

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestSpares holds which pools a connection is kept from.
func TestSpares(t *testing.T) {
	for _, c := range []struct {
		name    string
		options redis.Options
		want    bool
	}{
		{"large", redis.Options{PoolSize: 8}, true},
		{"small", redis.Options{PoolSize: 7}, false},
		{"large, few of it at once", redis.Options{PoolSize: 100, MaxActiveConns: 7}, false},
		{"large, many of it at once", redis.Options{PoolSize: 100, MaxActiveConns: 8}, true},
		{"with a cache", redis.Options{PoolSize: 8, ClientSideCacheConfig: &redis.ClientSideCacheConfig{}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := spares(&c.options); got != c.want {
				t.Errorf("spares = %v, want %v", got, c.want)
			}
		})
	}
}

// keeping returns a client of a server's that keeps a connection, and what sends a call through it.
func keeping(t *testing.T, addr string) (*Prompt, func() error) {
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 8, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	p := NewPrompt(client, 30*time.Second)
	key := redistest.Prefix(t)
	return p, func() error {
		c := incrementing(p, key)
		c.MayRepeat = true
		_, err := c.Run(context.Background())
		return err
	}
}

// keeps says whether a connection is kept now.
func (k *kept) keeps() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conn != nil
}

// untilKept sends calls until one has left its connection kept, which the first does unless this process has slept meanwhile.
func untilKept(t *testing.T, p *Prompt, send func() error) {
	t.Helper()
	if err := redistest.Poll(func() error {
		if err := send(); err != nil {
			return err
		}
		if !p.kept.keeps() {
			return errors.New("no connection is kept after a call")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestKeptGoesBack holds that the pool has all of its connections again, by itself and when it is told so.
func TestKeptGoesBack(t *testing.T) {
	p, send := keeping(t, redistest.Standalone(t).Addr())
	untilKept(t, p, send)
	p.GiveBack()
	wantIdle(t, p)
	untilKept(t, p, send)
	if err := redistest.Poll(func() error {
		if p.kept.keeps() {
			return errors.New("a connection is still kept")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wantIdle(t, p)
	if got := p.PoolStats().StaleConns; got != 0 {
		t.Errorf("%d connections come back broken, want none", got)
	}
}

func wantIdle(t *testing.T, p *Prompt) {
	t.Helper()
	if got := p.PoolStats(); got.IdleConns != got.TotalConns {
		t.Errorf("%d of %d connections are in the pool, want all", got.IdleConns, got.TotalConns)
	}
}

// TestKeptBreaks holds that a call on a kept connection which has been closed goes on by another, and that the closed one is nobody's.
func TestKeptBreaks(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.Standalone(t).Addr())
	p, send := keeping(t, proxy.Addr())
	for range 20 {
		untilKept(t, p, send)
		proxy.Cut()
		if err := send(); err != nil {
			t.Fatalf("a call after its connection was closed = %v, want nil", err)
		}
	}
	p.GiveBack()
	wantIdle(t, p)
}

// TestKeptIsGivenUpByAnError holds that a connection on which the server has refused a call is not kept.
func TestKeptIsGivenUpByAnError(t *testing.T) {
	p, send := keeping(t, redistest.Standalone(t).Addr())
	untilKept(t, p, send)
	c := &Call{Package: "rediscall", Client: p, Script: NewScript("return redis.error_reply('READONLY it is a replica')"), Words: []any{nil, nil, 0}}
	if _, err := c.Run(t.Context()); err == nil {
		t.Fatal("a call that the server refuses succeeds")
	}
	if p.kept.keeps() {
		t.Error("the connection to a server that is no master is still kept")
	}
	if err := send(); err != nil {
		t.Error(err)
	}
}
