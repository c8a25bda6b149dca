package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// firewalls stand before servers, each before one. They are safe for concurrent use.
type firewalls struct {
	t  *testing.T
	mu sync.Mutex
	of map[string]*redistest.Proxy // by address
}

// dial is a client's Dialer.
func (f *firewalls) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, f.before(addr).Addr())
}

func (f *firewalls) before(addr string) *redistest.Proxy {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of[addr] == nil {
		f.of[addr] = redistest.NewProxy(f.t, addr)
	}
	return f.of[addr]
}

// forget makes the connections silent that are open.
func (f *firewalls) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.of {
		p.Forget()
	}
}

// TestForgottenConnections holds that a client whose idle connections have gone silent, while new ones are answered, is rid of them at once, and not of one by each call
// that asks after a rest.
func TestForgottenConnections(t *testing.T) {
	t.Parallel()
	const idle, few, pipes = 50, 20, 8
	for name, open := range map[string]func(*testing.T, *firewalls) redis.UniversalClient{
		"standalone": func(t *testing.T, f *firewalls) redis.UniversalClient {
			return redistest.Standalone(t).Client(t, func(o *redis.Options) { o.Dialer, o.PoolSize = f.dial, 2*idle })
		},
		"cluster": func(t *testing.T, f *firewalls) redis.UniversalClient {
			return redistest.NewCluster(t).Client(t, func(o *redis.ClusterOptions) { o.Dialer, o.PoolSize = f.dial, 2*idle })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &firewalls{t: t, of: map[string]*redistest.Proxy{}}
			client, p := open(t, f), redistest.Prefix(t)
			key := "{" + p + "}"
			s := newStore(t, client, redisstore.WithBudget(short))
			take(t, newStore(t, client), request(key, 1000, 1))
			if err := redistest.Poll(func() error {
				_, err := store.Take(t.Context(), s, []store.Request{request(key, 1000, 1)}, false)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := redistest.Poll(func() error { // what the program itself asks
				var all sync.WaitGroup
				for i := range idle {
					all.Go(func() { client.BLPop(context.Background(), 500*time.Millisecond, fmt.Sprint(key, i)) })
				}
				for i := range pipes {
					all.Go(func() {
						_, _ = client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
							p.BLPop(context.Background(), 500*time.Millisecond, fmt.Sprint(key, i))
							return nil
						})
					})
				}
				all.Wait()
				if n := client.PoolStats().IdleConns; n < idle*9/10 {
					return fmt.Errorf("%d connections are idle, want %d", n, idle)
				}
				if n := client.PoolStats().PipelineStats.IdleConns; n < pipes {
					return fmt.Errorf("%d connections for pipelines are idle, want %d", n, pipes)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			f.forget()
			failed := 0
			for {
				_, err := store.Take(context.Background(), s, []store.Request{request(key, 1000, 1)}, false)
				if err == nil {
					break
				}
				if !strings.Contains(err.Error(), "not asked") {
					failed++
				}
				if failed > few {
					t.Fatalf("%d calls have failed since %d connections went silent, the latest with %v: want the client rid of them", failed, idle, err)
				}
			}
			until(t, 0, "connections for pipelines are left", func() int { return int(client.PoolStats().PipelineStats.TotalConns) })
		})
	}
}
