package redisstore_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// pipelineWaits are those whom others of their pipeline, or of their server, are not to keep waiting.
func pipelineWaits() map[string]func(t *testing.T, p *puppet) {
	return map[string]func(t *testing.T, p *puppet){
		"lone scripts of slots that move":                          besideMoving,
		"a pipeline of which one slot has gone to a silent server": besideGone,
		"a pipeline of which one server is silent to the script":   besideUnknown,
		"a script that goes on by itself, which a caller leaves":   besideLeft,
		"a pipeline that a hook keeps":                             besideKept,
		"pipelines that wait for the only connection":              oneConnection,
	}
}

// know has the store find out which server has a key.
func know(t *testing.T, p *puppet, s *redisstore.Store, key string) {
	t.Helper()
	p.set(func(p *puppet) { p.says = allows })
	if err := takeOne(context.Background(), s, key); err != nil {
		t.Fatal(err)
	}
}

func takeOne(ctx context.Context, s *redisstore.Store, key string) error {
	_, err := store.Take(ctx, s, []store.Request{request(key, 10, 1)}, false)
	return err
}

// besideMoving holds that callers of one slot, which is refused as long as it moves, do not take the places of those of others.
func besideMoving(t *testing.T, p *puppet) {
	s := bubbleStore(t, p.cluster(t))
	keys := keysOfHalf(0, redisstore.Aloft+1)
	know(t, p, s, keys[0])
	moving := keys[:redisstore.Aloft]
	p.set(func(p *puppet) {
		p.says = func(addr string, words []string) string {
			for _, key := range moving {
				if keyIn(words) == key {
					return "-TRYAGAIN slots move\r\n"
				}
			}
			return allows(addr, words)
		}
	})
	var all sync.WaitGroup
	for _, key := range moving {
		all.Go(func() {
			if err := takeOne(context.Background(), s, key); classOf(err) != store.Unavailable {
				t.Errorf("Take of a slot that moves = %v, want it unavailable", err)
			}
		})
		synctest.Wait()
	}
	begin := time.Now()
	if err := takeOne(context.Background(), s, keys[redisstore.Aloft]); err != nil {
		t.Errorf("Take of a slot that does not move = %v, want a decision", err)
	}
	if waited := time.Since(begin); waited > 0 {
		t.Errorf("Take of a slot that does not move has waited for %v, want it decided at once", waited)
	}
	all.Wait()
	if got := redisstore.Rides(s, keys[0]); got != [2]int{} {
		t.Errorf("places taken, and riders, are %v while nobody asks, want none", got)
	}
}

// besideGone holds that who is decided is told, though the client sends the rest of the pipeline to a silent server: it has heard that a slot went there.
func besideGone(t *testing.T, p *puppet) {
	whole := clusterOfTwo
	defer func() { clusterOfTwo = whole }()
	client := p.cluster(t)
	c := newPiped(t, p, client)
	keys := c.keys(2)
	gone := redisstore.Slot(keys[1])
	answers := c.send(nil, keys, func() {
		p.set(func(p *puppet) {
			clusterOfTwo = "*3\r\n" + slots(0, gone-1, 1) + slots(gone, gone, 2) + slots(gone+1, 16383, 1)
			p.says = func(addr string, words []string) string {
				if strings.HasPrefix(addr, "127.0.0.2") {
					return ""
				}
				return allows(addr, words)
			}
		})
		client.ReloadState(context.Background())
		synctest.Wait()
	})
	if err := <-answers[0]; err != nil {
		t.Errorf("Take of a slot that has not moved = %v, want a decision", err)
	}
	if err := <-answers[1]; classOf(err) != store.Indeterminate {
		t.Errorf("Take of a slot that has moved to a silent server = %v, want an indeterminate error", err)
	}
}

// besideUnknown holds that who is decided does not wait while the server is told, and silent then, what the script of others is.
func besideUnknown(t *testing.T, p *puppet) {
	c := newPiped(t, p, p.cluster(t))
	keys := c.keys(2)
	answers := c.send(nil, keys, func() {
		p.set(func(p *puppet) {
			p.says = func(addr string, words []string) string {
				switch {
				case keyIn(words) == keys[0]:
					return allows(addr, words)
				case words[0] == "evalsha":
					return "-NOSCRIPT No matching script\r\n"
				}
				return ""
			}
		})
	})
	if err := <-answers[0]; err != nil {
		t.Errorf("Take of who is decided = %v, want a decision", err)
	}
	if err := <-answers[1]; classOf(err) != store.Indeterminate {
		t.Errorf("Take of who is not = %v, want an indeterminate error", err)
	}
}

// besideLeft holds that nothing is sent for who has left a script that goes on by itself, be it before it was refused, though others of its pipeline are decided.
func besideLeft(t *testing.T, p *puppet) {
	for _, before := range []bool{false, true} {
		c := newPiped(t, p, p.cluster(t))
		keys := c.keys(2)
		ctx, leave := context.WithCancel(context.Background())
		empty := 0
		answers := c.send([]context.Context{context.Background(), ctx}, keys, func() {
			p.set(func(p *puppet) {
				p.says = func(addr string, words []string) string {
					switch {
					case words[1] == "return {}":
						empty++
						return "*0\r\n"
					case keyIn(words) == keys[0]:
						return allows(addr, words)
					}
					return "-TRYAGAIN slots move\r\n"
				}
				p.after = 10 * time.Millisecond
			})
		})
		if before {
			time.Sleep(5 * time.Millisecond)
			leave()
		}
		if err := <-answers[0]; err != nil {
			t.Errorf("Take of who stays = %v, want a decision", err)
		}
		time.Sleep(20 * time.Millisecond)
		leave()
		if err := <-answers[1]; !errors.Is(err, context.Canceled) {
			t.Errorf("Take of who leaves = %v, want %v", err, context.Canceled)
		}
		time.Sleep(time.Minute)
		p.set(func(p *puppet) {
			if empty > 0 {
				t.Errorf("%d empty scripts are sent for who has left, before he was refused: %v; want none", empty, before)
			}
			p.after = 0
		})
	}
}

// besideKept holds that a hook which keeps a pipeline that is answered keeps its place until the budget ends, and no longer.
func besideKept(t *testing.T, p *puppet) {
	forever := make(chan struct{})
	defer close(forever)
	client := p.cluster(t)
	client.AddHook(pipelineHook(func(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
		return func(ctx context.Context, cmds []redis.Cmder) error {
			defer func() { <-forever }()
			return next(ctx, cmds)
		}
	}))
	c := newPiped(t, p, client)
	keys := c.keys(2)
	answers := c.send(nil, keys, func() { p.set(func(p *puppet) { p.says = allows }) })
	for _, told := range answers {
		if err := <-told; err != nil {
			t.Errorf("Take = %v, want a decision", err)
		}
	}
	if got, want := redisstore.Rides(c.store, keys[0]), [2]int{1, 2}; got != want {
		t.Errorf("places taken, and riders, are %v, want %v", got, want)
	}
	time.Sleep(bubbleBudget)
	synctest.Wait()
	if got := redisstore.Rides(c.store, keys[0]); got != [2]int{} {
		t.Errorf("places taken, and riders, are %v when the budget has ended, want none", got)
	}
}

// oneConnection holds that all are decided, and executed once, where pipelines have one connection between them.
func oneConnection(t *testing.T, p *puppet) {
	for _, heeds := range []bool{false, true} {
		s := bubbleStore(t, p.cluster(t, func(o *redis.ClusterOptions) {
			o.ContextTimeoutEnabled = heeds
			o.PoolSize, o.PipelinePoolSize, o.PoolTimeout = 1, -1, 10*time.Millisecond
			o.Dialer = p.dialBuffered
		}))
		keys := keysOfHalf(0, 64)
		know(t, p, s, keys[0])
		executed := make(map[string]int)
		p.set(func(p *puppet) {
			p.says = func(addr string, words []string) string {
				if words[1] != "return {}" {
					executed[keyIn(words)]++
				}
				return allows(addr, words)
			}
			p.after = 100 * time.Microsecond
		})
		var all sync.WaitGroup
		for _, key := range keys {
			all.Go(func() {
				if err := takeOne(context.Background(), s, key); err != nil {
					t.Errorf("Take = %v, want a decision", err)
				}
			})
		}
		all.Wait()
		for _, key := range keys {
			if executed[key] != 1 {
				t.Errorf("a script was executed %d times, want 1", executed[key])
			}
		}
	}
}

// buffered is a conn whose writes do not wait for who reads, as those of a socket do not.
type buffered struct {
	net.Conn
	out chan []byte
}

func (b *buffered) Write(words []byte) (int, error) {
	b.out <- append([]byte(nil), words...)
	return len(words), nil
}

func (b *buffered) Close() error {
	close(b.out)
	return b.Conn.Close()
}

// dialBuffered is a Dialer to the puppet that takes pipelines of any length.
func (p *puppet) dialBuffered(_ context.Context, _, addr string) (net.Conn, error) {
	client, server := net.Pipe()
	b := &buffered{server, make(chan []byte, 1000)}
	go func() {
		for words := range b.out {
			if _, err := b.Conn.Write(words); err != nil {
				return
			}
		}
	}()
	go p.serve(addr, b)
	return client, nil
}
