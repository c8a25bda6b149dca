package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// keysOfHalf are n keys of slots of their own in a half of [clusterOfTwo].
func keysOfHalf(half, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprintf("rl:{k%d}", i); redisstore.Slot(key)/8192 == half {
			keys = append(keys, key)
		}
	}
	return keys
}

// keyIn is the first key of a script's words.
func keyIn(words []string) string { return words[3] }

func heedsContexts(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true }

// piped is what brings callers of one server onto a pipeline.
type piped struct {
	t      *testing.T
	puppet *puppet
	store  *redisstore.Store
	first  []string // keys of those who come first, two of one server
}

func newPiped(t *testing.T, p *puppet, client redis.UniversalClient) *piped {
	return &piped{t, p, bubbleStore(t, client), keysOfHalf(0, redisstore.Aloft)}
}

// keys are n other ones of that server, in slots of their own.
func (c *piped) keys(n int) []string { return keysOfHalf(0, len(c.first)+n)[len(c.first):] }

// send has callers ask for keys, each with its context, while the server is silent to those who came first, and once all queue calls ready and lets them go together.
func (c *piped) send(ctxs []context.Context, keys []string, ready func()) []<-chan error {
	c.t.Helper()
	know(c.t, c.puppet, c.store, c.first[0])
	c.puppet.set(func(p *puppet) { p.says = nobody })
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	for _, key := range c.first {
		go store.Take(ctx, c.store, []store.Request{request(key, 10, 1)}, false)
		synctest.Wait()
	}
	var answers []<-chan error
	for i, key := range keys {
		told, of := make(chan error, 1), context.Background()
		if ctxs != nil {
			of = ctxs[i]
		}
		go func() {
			_, err := store.Take(of, c.store, []store.Request{request(key, 10, 1)}, false)
			told <- err
		}()
		synctest.Wait()
		answers = append(answers, told)
	}
	if n := redisstore.Queued(c.store, c.first[0]); n != len(keys) {
		c.t.Fatalf("%d callers queue, want %d", n, len(keys))
	}
	ready()
	return answers
}

// pipelineBubbles are what callers meet who share a pipeline, by the clock of a bubble.
func pipelineBubbles() map[string]func(t *testing.T, p *puppet) {
	return map[string]func(t *testing.T, p *puppet){
		"a pipeline of which one script goes on by itself":       onByItself,
		"a pipeline of callers with deadlines":                   pipedDeadlines,
		"a pipeline that is sent again":                          pipedAgain,
		"pipelines and hooks":                                    pipedHooks,
		"pipelines to a silent server, which errors name":        pipedNames,
		"a pipeline to two servers of which one is slow":         pipedToTwo,
		"a pipeline to a server that does not know the script":   pipedUnknown,
		"a lone caller of a Cluster that does not tell commands": aloneInACluster,
	}
}

// onByItself holds that rides whose scripts go on by themselves give their places up once.
func onByItself(t *testing.T, p *puppet) {
	c := newPiped(t, p, p.cluster(t))
	keys := c.keys(2)
	for range 5 {
		answers := c.send(nil, keys, func() {
			p.set(func(p *puppet) {
				p.says = func(addr string, words []string) string {
					switch {
					case keyIn(words) == keys[0]:
						return allows(addr, words)
					case strings.HasPrefix(addr, "127.0.0.1"):
						return fmt.Sprintf("-MOVED %d 127.0.0.2:6379\r\n", redisstore.Slot(keys[1]))
					}
					return "" // where the slot has moved to
				}
			})
		})
		if err := <-answers[0]; err != nil {
			t.Errorf("Take of a slot that has not moved = %v, want a decision", err)
		}
		if err := <-answers[1]; classOf(err) != store.Indeterminate {
			t.Errorf("Take of a slot that has moved to a silent server = %v, want an indeterminate error", err)
		}
		time.Sleep(time.Second)
	}
	if n := redisstore.Rides(c.store, keys[0])[0]; n != 0 {
		t.Errorf("%d places for rides are taken while nobody asks, want 0", n)
	}
}

// pipedDeadlines holds that deadlines of some callers do not cut short what others have.
func pipedDeadlines(t *testing.T, p *puppet) {
	c := newPiped(t, p, p.cluster(t, heedsContexts))
	keys := c.keys(2)
	brief, cancel := context.WithTimeout(context.Background(), hasty/2)
	defer cancel()
	answers := c.send([]context.Context{brief, brief, context.Background()}, []string{keys[0], keys[1], keys[0]}, func() {
		p.set(func(p *puppet) {
			p.says = func(addr string, words []string) string {
				time.Sleep(hasty)
				if words[2] == "2" {
					return "*4\r\n:" + words[len(words)-1] + "\r\n:1\r\n:1\r\n:1\r\n"
				}
				return allows(addr, words)
			}
		})
	})
	for _, told := range answers[:2] {
		if err := <-told; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Take of who has little time = %v, want %v", err, context.DeadlineExceeded)
		}
	}
	if err := <-answers[2]; err != nil {
		t.Errorf("Take of who has time = %v, want a decision", err)
	}
	if rests := c.store.Resting(); len(rests) > 0 {
		t.Errorf("Resting() = %q, want none", rests)
	}
}

// pipedAgain holds that every script of a pipeline is executed once of which the server refuses one, be it that a hook sends the pipeline again.
func pipedAgain(t *testing.T, p *puppet) {
	persists := pipelineHook(func(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
		return func(ctx context.Context, cmds []redis.Cmder) error {
			if err := next(ctx, cmds); err != nil {
				return next(ctx, cmds)
			}
			return nil
		}
	})
	for _, refusal := range []string{"-TRYAGAIN slots move\r\n", "-LOADING Redis is loading the dataset in memory\r\n"} {
		for first := range 2 {
			for _, again := range []bool{false, true} {
				client := p.cluster(t)
				if again {
					client.AddHook(persists)
				}
				c := newPiped(t, p, client)
				keys := c.keys(2)
				executed := make(map[string]int)
				answers := c.send(nil, keys, func() {
					p.set(func(p *puppet) {
						refused := false
						p.says = func(addr string, words []string) string {
							switch {
							case words[1] == "return {}":
								return "*0\r\n"
							case keyIn(words) == keys[first] && !refused:
								refused = true
								return refusal
							}
							executed[keyIn(words)]++
							return allows(addr, words)
						}
					})
				})
				for i, told := range answers {
					if err := <-told; err != nil {
						t.Errorf("Take of %s = %v, want a decision", keys[i], err)
					}
				}
				for i, key := range keys {
					if executed[key] != 1 {
						t.Errorf("script %d, of which %d is refused by %q, was executed %d times where a hook sends it again: %v, want 1", i, first, refusal, executed[key], again)
					}
				}
			}
		}
	}
}

// pipedHooks holds what becomes of callers whose pipeline a hook does not hand on as it is to.
func pipedHooks(t *testing.T, p *puppet) {
	refused := errors.New("not today")
	for _, test := range []struct {
		name     string
		hook     func(next redis.ProcessPipelineHook, ctx context.Context, cmds []redis.Cmder) error
		class    store.Class
		executed int
	}{
		{"hands it on", func(next redis.ProcessPipelineHook, ctx context.Context, cmds []redis.Cmder) error {
			return next(ctx, cmds)
		}, 255, 2},
		{"panics", func(redis.ProcessPipelineHook, context.Context, []redis.Cmder) error { panic("a hook") }, store.Misconfigured, 0},
		{"refuses it", func(redis.ProcessPipelineHook, context.Context, []redis.Cmder) error { return refused }, 255, 2}, // each script goes on by itself
		{"keeps it", func(redis.ProcessPipelineHook, context.Context, []redis.Cmder) error { return nil }, store.Misconfigured, 0},
		{"refuses it afterwards", func(next redis.ProcessPipelineHook, ctx context.Context, cmds []redis.Cmder) error {
			_ = next(ctx, cmds)
			return refused
		}, 255, 2},
		{"does not wait for it", func(_ redis.ProcessPipelineHook, _ context.Context, cmds []redis.Cmder) error {
			for _, cmd := range cmds {
				cmd.Args() // as it is written
			}
			return nil
		}, store.Indeterminate, 0},
	} {
		client := p.cluster(t)
		client.AddHook(pipelineHook(func(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
			return func(ctx context.Context, cmds []redis.Cmder) error { return test.hook(next, ctx, cmds) }
		}))
		c := newPiped(t, p, client)
		executed, keys := 0, c.keys(2)
		answers := c.send(nil, keys, func() {
			p.set(func(p *puppet) {
				p.says = func(addr string, words []string) string {
					executed++
					return allows(addr, words)
				}
			})
		})
		for i, told := range answers {
			if err := <-told; classOf(err) != test.class {
				t.Errorf("a hook %s: Take of %s = %v, want an error of class %v", test.name, keys[i], err, test.class)
			}
		}
		if executed != test.executed {
			t.Errorf("a hook %s: %d scripts are executed, want %d", test.name, executed, test.executed)
		}
	}
}

// pipedNames holds that every error names the server, once.
func pipedNames(t *testing.T, p *puppet) {
	c := newPiped(t, p, p.cluster(t))
	p.set(func(p *puppet) { p.says = allows })
	key := c.first[0]
	if _, err := store.Take(context.Background(), c.store, []store.Request{request(key, 10, 1)}, false); err != nil {
		t.Fatal(err)
	}
	p.set(func(p *puppet) { p.says = nobody })
	rests := 0
	for range 12 {
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				_, err := store.Take(context.Background(), c.store, []store.Request{request(key, 10, 1)}, false)
				if strings.Count(fmt.Sprint(err), "server 127.0.0.1:6379") != 1 {
					t.Errorf("Take = %v, want an error that names the server once", err)
				}
			})
		}
		all.Wait()
		rests += len(c.store.Resting())
		time.Sleep(bubbleBudget)
	}
	if rests == 0 {
		t.Error("the server has not been given a rest")
	}
}

// pipedToTwo holds that a script whose slot has moved does not end the wait of one that is on its way to a further server, to which its slot had moved before the
// pipeline was sent.
func pipedToTwo(t *testing.T, p *puppet) {
	slow := make(chan struct{})
	client := p.cluster(t, func(o *redis.ClusterOptions) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.HasPrefix(addr, "127.0.0.2") {
				<-slow
			}
			return p.dial(ctx, network, addr)
		}
	})
	keys := []string{keysOfHalf(0, 1)[0], keysOfHalf(1, 1)[0]}
	p.set(func(p *puppet) {
		p.says = func(addr string, words []string) string {
			if keyIn(words) == keys[0] && strings.HasPrefix(addr, "127.0.0.1") {
				return fmt.Sprintf("-MOVED %d 127.0.0.2:6379\r\n", redisstore.Slot(keys[0]))
			}
			return allows(addr, words)
		}
	})
	calls := make([]*rediscall.Call, len(keys))
	for i := range calls {
		calls[i] = &rediscall.Call{
			Package: "redisstore", Client: client, Script: rediscall.NewScript("the puppet does not run it"),
			Nonce: rediscall.NewNonce(), Words: []any{nil, nil, 1, keys[i]},
		}
		calls[i].Words = append(calls[i].Words, calls[i].Nonce)
	}
	time.AfterFunc(10*time.Millisecond, func() { close(slow) })
	var over []int
	others := rediscall.Together(context.Background(), calls, func(i int) { over = append(over, i) })
	if !slices.Equal(over, []int{1}) || !slices.Equal(others, []int{0}) {
		t.Errorf("Together = %v, and %v are over, want 0, and 1", others, over)
	}
	for i := range calls {
		if _, err := calls[i].Run(context.Background()); err != nil {
			t.Errorf("Run() of %s = %v, want a reply", keys[i], err)
		}
	}
}

// pipedUnknown holds that the first script of those that a server does not know tells it what it is, and that the others do so by themselves where that one is refused.
func pipedUnknown(t *testing.T, p *puppet) {
	for _, refuses := range []bool{false, true} {
		c := newPiped(t, p, p.cluster(t))
		keys := c.keys(3)
		told := 0
		answers := c.send(nil, keys, func() {
			p.set(func(p *puppet) {
				p.says = func(addr string, words []string) string {
					switch {
					case refuses && keyIn(words) == keys[0] && (words[0] == "eval" || told > 0):
						return "-CLUSTERDOWN Hash slot not served\r\n"
					case words[0] == "evalsha" && told == 0:
						return "-NOSCRIPT No matching script\r\n"
					case words[0] == "eval":
						told++
					}
					return allows(addr, words)
				}
			})
		})
		for i, answer := range answers {
			if err := <-answer; i == 0 && refuses != (classOf(err) == store.Unavailable) || i > 0 && err != nil {
				t.Errorf("Take of %s = %v, want a decision, but of %s where that is refused", keys[i], err, keys[0])
			}
		}
		if !refuses && told != 1 {
			t.Errorf("the server was told of the script %d times, want 1", told)
		}
	}
}

// aloneInACluster holds that a lone caller's budget ends his wait whatever the client asks on its own behalf.
func aloneInACluster(t *testing.T, p *puppet) {
	s := bubbleStore(t, p.cluster(t, heedsContexts))
	key := keysOfHalf(0, 1)[0]
	p.set(func(p *puppet) { p.says, p.command = allows, "-LOADING Redis is loading the dataset in memory\r\n" })
	if _, err := store.Take(context.Background(), s, []store.Request{request(key, 10, 1)}, false); err != nil {
		t.Fatal(err)
	}
	p.set(func(p *puppet) { p.command = "" })
	began := time.Now()
	_, err := store.Take(context.Background(), s, []store.Request{request(key, 10, 1)}, false)
	if took := time.Since(began); took > bubbleBudget+bubbleSlack {
		t.Errorf("Take = %v after %v, want its budget of %v at most", err, took, bubbleBudget)
	}
}

// pipelineHook is a hook of pipelines.
type pipelineHook func(redis.ProcessPipelineHook) redis.ProcessPipelineHook

func (pipelineHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (pipelineHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h pipelineHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return h(next)
}
