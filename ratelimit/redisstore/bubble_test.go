package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// bubbleBudget is that of the calls in bubbles, by whose clocks they take exactly so long where nobody answers, however busy the machine is.
const bubbleBudget = 100 * time.Millisecond

// bubbleSlack is by how much they may outlast it: clients are woken a moment after the end of a context, so as to find it done.
const bubbleSlack = 2 * time.Millisecond

// puppet is a server in the test's process, and in its bubble.
type puppet struct {
	mu      sync.Mutex
	says    func(addr string, words []string) string // in Redis's protocol; empty for nothing at all
	command string                                   // what it says of its commands
	after   time.Duration                            // that it takes to answer
	dials   bool                                     // that nobody takes
	frozen  bool                                     // it reads nothing either
}

func (p *puppet) set(change func(*puppet)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// dial is a client's Dialer.
func (p *puppet) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	p.mu.Lock()
	never := p.dials
	p.mu.Unlock()
	if never {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	go p.serve(addr, server)
	return client, nil
}

func (p *puppet) serve(addr string, conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		words, err := readWords(in)
		if err != nil {
			return
		}
		p.mu.Lock()
		answer := p.answer(addr, words)
		frozen, after := p.frozen, p.after
		p.mu.Unlock()
		if frozen {
			p.thaw(conn)
			return
		}
		time.Sleep(after)
		if answer != "" {
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	}
}

// thaw waits until the client hangs up, of which a frozen server takes no notice.
func (p *puppet) thaw(conn net.Conn) {
	for {
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if !frozen {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *puppet) answer(addr string, words []string) string {
	switch words[0] {
	case "hello":
		return "-ERR unknown command 'hello'\r\n"
	case "client", "ping", "asking", "readonly":
		return "+OK\r\n"
	case "command":
		return p.command
	case "cluster":
		return clusterOfTwo
	case "evalsha", "eval":
		return p.says(addr, words)
	}
	return "-ERR unknown command '" + words[0] + "'\r\n"
}

// clusterOfTwo is what a Cluster says of its slots whose halves two masters have.
var clusterOfTwo = "*2\r\n" + slots(0, 8191, 1) + slots(8192, 16383, 2)

func slots(from, to, node int) string {
	return fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.%d\r\n:6379\r\n", from, to, node)
}

func readWords(in *bufio.Reader) ([]string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.Trim(line, "*\r\n"))
	words := make([]string, n)
	for i := range words {
		if line, err = in.ReadString('\n'); err != nil {
			return nil, err
		}
		size, _ := strconv.Atoi(strings.Trim(line, "$\r\n"))
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		words[i] = strings.ToLower(string(text[:size]))
	}
	return words, err
}

// allows is the answer that allows calls of one rule without detail, and none at all where none is asked for any more.
func allows(_ string, words []string) string {
	if words[1] == "return {}" {
		return "*0\r\n"
	}
	return "*3\r\n:" + words[len(words)-1] + "\r\n:1\r\n:1\r\n"
}

// nobody is the answer of a server that is silent.
func nobody(string, []string) string { return "" }

// plain is a client of the puppet with options that outlast all budgets.
func (p *puppet) plain(t *testing.T, opts ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: "127.0.0.1:6379", Dialer: p.dial, Protocol: 2, DisableIdentity: true, ReadTimeout: time.Hour, WriteTimeout: time.Hour, PoolTimeout: time.Hour, MaxRetries: 10}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() })
	return client
}

// cluster is a client of a Cluster of puppets with options that outlast all budgets.
func (p *puppet) cluster(t *testing.T, opts ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	o := &redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:6379"}, Dialer: p.dial, Protocol: 2, DisableIdentity: true, ReadTimeout: time.Hour, WriteTimeout: time.Hour, PoolTimeout: time.Hour,
	}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { client.Close() })
	return client
}

func bubbleStore(t *testing.T, client redis.UniversalClient, opts ...redisstore.Option) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(client, append(opts, redisstore.WithBudget(bubbleBudget))...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantBudget fails the test unless f takes its budget, by the bubble's clock.
func wantBudget(t *testing.T, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took < bubbleBudget || took > bubbleBudget+bubbleSlack {
		t.Errorf("%s took %v, want its budget of %v", what, took, bubbleBudget)
	}
}

// refusedTake is a Take that is to fail.
func refusedTake(t *testing.T, s *redisstore.Store, ctx context.Context, keys ...string) func() {
	return func() {
		t.Helper()
		var requests []store.Request
		for _, key := range keys {
			requests = append(requests, request(key, 10, 1))
		}
		if _, err := store.Take(ctx, s, requests, false); err == nil {
			t.Error("Take succeeds, want an error")
		}
	}
}

// Keys of the two halves of [clusterOfTwo].
const oneHalf, otherHalf = "rl:b", "rl:a"

// bubbles are the ways in which a call waits, each of which ends with the budget.
var bubbles = with(pipelineBubbles(), pipelineWaits(), hastyBubbles(), map[string]func(t *testing.T, p *puppet){
	"driven by its caller": func(t *testing.T, p *puppet) {
		s := bubbleStore(t, p.plain(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true }))
		wantBudget(t, "Take", refusedTake(t, s, context.Background(), "rl:k"))
	},
	"a client that heeds no context": func(t *testing.T, p *puppet) {
		s := bubbleStore(t, p.plain(t))
		wantBudget(t, "Take", refusedTake(t, s, context.Background(), "rl:k"))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		wantBudget(t, "Take with a context", refusedTake(t, s, ctx, "rl:k"))
		later, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		wantBudget(t, "Take with a later deadline", refusedTake(t, s, later, "rl:k"))
	},
	"behind others in the lane": func(t *testing.T, p *puppet) {
		s := bubbleStore(t, p.plain(t))
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { wantBudget(t, "Take", refusedTake(t, s, context.Background(), "rl:k")) })
		}
		all.Wait()
	},
	"each alone": func(t *testing.T, p *puppet) {
		s := bubbleStore(t, p.plain(t), redisstore.WithBatching(1))
		wantBudget(t, "Take", refusedTake(t, s, context.Background(), "rl:k"))
	},
	"waiting for a connection": func(t *testing.T, p *puppet) {
		client := p.plain(t, func(o *redis.Options) { o.PoolSize = 1 })
		s := bubbleStore(t, client, redisstore.WithBatching(1))
		go refusedTake(t, s, context.Background(), "rl:k")()
		synctest.Wait()
		wantBudget(t, "Take", refusedTake(t, s, context.Background(), "rl:k"))
	},
	"connecting": func(t *testing.T, p *puppet) {
		p.set(func(p *puppet) { p.dials = true })
		s := bubbleStore(t, p.plain(t))
		wantBudget(t, "Take", refusedTake(t, s, context.Background(), "rl:k"))
		wantBudget(t, "Take, each alone", refusedTake(t, bubbleStore(t, p.plain(t), redisstore.WithBatching(1)), context.Background(), "rl:k"))
	},
	"writing": func(t *testing.T, p *puppet) {
		s := bubbleStore(t, p.plain(t), redisstore.WithBatching(1))
		p.set(func(p *puppet) { p.frozen = true })
		wantBudget(t, "Take", refusedTake(t, s, context.Background(), "rl:k"))
		p.set(func(p *puppet) { p.frozen = false })
	},
	"of a Cluster": func(t *testing.T, p *puppet) {
		s := bubbleStore(t, p.cluster(t))
		wantBudget(t, "Take of one slot", refusedTake(t, s, context.Background(), oneHalf))
		wantBudget(t, "Take of two slots", refusedTake(t, s, context.Background(), oneHalf, otherHalf))
	},
	"given back in a Cluster": func(t *testing.T, p *puppet) {
		s := bubbleStore(t, p.cluster(t))
		p.set(func(p *puppet) {
			once := true
			p.says = func(addr string, words []string) string {
				if strings.HasPrefix(addr, "127.0.0.1") && once { // the reservation, and not what gives it back
					once = false
					return allows(addr, words)
				}
				return ""
			}
		})
		wantBudget(t, "Take", refusedTake(t, s, context.Background(), oneHalf, otherHalf))
	},
	"redirected for ever": func(t *testing.T, p *puppet) {
		p.set(func(p *puppet) {
			p.says = func(addr string, _ []string) string {
				time.Sleep(time.Millisecond)
				return "-TRYAGAIN slots move\r\n"
			}
		})
		s := bubbleStore(t, p.cluster(t))
		began := time.Now()
		refusedTake(t, s, context.Background(), oneHalf)()
		if took := time.Since(began); took > bubbleBudget+bubbleSlack {
			t.Errorf("Take took %v, want its budget of %v at most", took, bubbleBudget)
		}
	},
	"a server that loads": func(t *testing.T, p *puppet) {
		sent := 0
		p.set(func(p *puppet) {
			p.says = func(string, []string) string {
				sent++
				return "-LOADING Redis is loading the dataset in memory\r\n"
			}
		})
		s := bubbleStore(t, p.plain(t))
		began := time.Now()
		refusedTake(t, s, context.Background(), "rl:k")()
		if took := time.Since(began); took > bubbleBudget+bubbleSlack || took < bubbleBudget/4 {
			t.Errorf("Take took %v, want its budget of %v at most, and a good part of it", took, bubbleBudget)
		}
		if sent < 4 || sent > 8 { // after 2 ms, 4, 8, and so on, each give or take the half of it
			t.Errorf("the script was sent %d times, want some 6, ever less often", sent)
		}
	},
	"what is no Take": func(t *testing.T, p *puppet) {
		p.set(func(p *puppet) { p.says = allows })
		s := bubbleStore(t, p.plain(t))
		out, err := store.Take(context.Background(), s, []store.Request{request("rl:k", 10, 1)}, false)
		if err != nil {
			t.Fatal(err)
		}
		p.set(func(p *puppet) { p.says = nobody })
		one := []store.Request{request("rl:k", 10, 1)}
		banned := request("rl:k", 10, 0)
		banned.Ban, banned.After = time.Hour, 1
		for what, f := range map[string]func(context.Context) error{
			"GiveBack": func(ctx context.Context) error { return s.GiveBack(ctx, out.Receipt) },
			"Reset":    func(ctx context.Context) error { return s.Reset(ctx, one) },
			"Grant":    func(ctx context.Context) error { return s.Grant(ctx, one) },
			"Peek":     func(ctx context.Context) error { return s.Peek(ctx, one, new(store.Outcome)) },
			"Ban":      func(ctx context.Context) error { return s.Ban(ctx, []store.Request{banned}, time.Hour) },
		} {
			wantBudget(t, what, func() {
				if err := f(context.Background()); err == nil {
					t.Errorf("%s succeeds, want an error", what)
				}
			})
		}
	},
	"decided by the process alone": func(t *testing.T, p *puppet) {
		l, err := ratelimit.New(bubbleStore(t, p.plain(t)), ratelimit.WithLogger(slog.New(slog.DiscardHandler)), ratelimit.WithInstances(1))
		if err != nil {
			t.Fatal(err)
		}
		g := l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{
			{Kind: rules.User, Rules: []rules.Rule{{Count: 10, Window: time.Hour}}},
			{Kind: rules.Global, Rules: []rules.Rule{{Count: 10, Window: time.Hour}}, OnFail: rules.FailOpen},
		}})
		decide := func() {
			d, _, err := g.Decide(ratelimit.WithUser(context.Background(), "ann"))
			if err != nil || d.Limits[0].Source != ratelimit.SourceLocal {
				t.Errorf("Decide = %+v, %v, want it decided by the process alone", d, err)
			}
		}
		wantBudget(t, "Decide", decide)
	},
})

// with is bubbles of several kinds.
func with(kinds ...map[string]func(*testing.T, *puppet)) map[string]func(*testing.T, *puppet) {
	all := map[string]func(*testing.T, *puppet){}
	for _, kind := range kinds {
		maps.Copy(all, kind)
	}
	return all
}

const bubbleCase = "RATELIMIT_TEST_BUBBLE"

// TestBudgetByTheClock holds that calls end with their budget, to the millisecond, whatever they wait for: by the clock of a bubble, in which no time passes while anybody
// has something to do. Each bubble has a process of its own, for timers that are pooled belong to one.
func TestBudgetByTheClock(t *testing.T) {
	t.Parallel()
	for name := range bubbles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run", "^TestInABubble$", "-test.timeout", "100s")
			cmd.Env = append(os.Environ(), bubbleCase+"="+name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestInABubble is one of the bubbles of [TestBudgetByTheClock].
func TestInABubble(t *testing.T) {
	name := os.Getenv(bubbleCase)
	if name == "" {
		t.Skip("is run by TestBudgetByTheClock")
	}
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(24 * time.Hour) }) // of the bubble's, in which clients that are closed end what they do
		bubbles[name](t, &puppet{says: nobody, command: "*0\r\n"})
	})
}
