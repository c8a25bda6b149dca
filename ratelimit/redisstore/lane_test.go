package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// gate is a hook that stops scripts before they are written, or before their replies are told.
type gate struct {
	before, after door
	scripts       atomic.Int32 // that have come to the first door
	pipelines     atomic.Int32 // of scripts, that have
}

func (*gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !strings.HasPrefix(cmds[0].Name(), "eval") {
			return next(ctx, cmds)
		}
		g.scripts.Add(int32(len(cmds)))
		g.pipelines.Add(1)
		g.before.pass()
		defer g.after.pass()
		return next(ctx, cmds)
	}
}

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		g.scripts.Add(1)
		g.before.pass()
		defer g.after.pass()
		return next(ctx, cmd)
	}
}

// door is open at first.
type door struct {
	mu      sync.Mutex
	closed  chan struct{} // until it is opened; nil while it is open
	waiting int
}

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = make(chan struct{})
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.closed)
	d.closed, d.waiting = nil, 0
}

// leave opens the door to others than those who wait at it, until what it returns is closed.
func (d *door) leave() (stopped chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	stopped, d.closed, d.waiting = d.closed, nil, 0
	return stopped
}

func (d *door) pass() {
	d.mu.Lock()
	closed := d.closed
	if closed != nil {
		d.waiting++
	}
	d.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting
}

// until waits until f returns want.
func until(t *testing.T, want int, what string, f func() int) {
	t.Helper()
	if err := redistest.Poll(func() error {
		if got := f(); got != want {
			return fmt.Errorf("%d %s, want %d", got, what, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// crowd is callers who meet in a lane: those who come first are stopped at a gate, and the others queue.
type crowd struct {
	*redisstore.Store
	t      *testing.T
	gate   *gate
	client redis.UniversalClient
	prefix string
	first  sync.WaitGroup
}

func newCrowd(t *testing.T, client redis.UniversalClient, opts ...redisstore.Option) *crowd {
	g := &gate{}
	client.AddHook(g)
	c := &crowd{Store: newStore(t, client, opts...), t: t, gate: g, client: client, prefix: redistest.Prefix(t)}
	take(t, c, request(c.prefix+"first", 100, 1)) // loads the script
	return c
}

// near is a key of the crowd's own of that name, which the server has that has the key of those who come first.
func (c *crowd) near(name string) string {
	key := c.prefix + name
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		return key
	}
	for i := 0; masterOf(c.t, cluster, key) != masterOf(c.t, cluster, c.prefix+"first"); i++ {
		key = fmt.Sprint(c.prefix, name, "-", i)
	}
	return key
}

// gather fills the lane: whoever comes next queues.
func (c *crowd) gather() {
	c.t.Helper()
	c.gate.before.close()
	for i := range redisstore.Aloft {
		c.first.Go(func() { take(c.t, c, request(c.prefix+"first", 100, 1)) })
		until(c.t, i+1, "scripts at the gate", c.gate.before.count)
	}
}

// answer is what a caller is told.
type answer struct {
	store.Outcome
	err error
}

// join queues a call behind those who have joined before.
func (c *crowd) join(ctx context.Context, detail bool, requests ...store.Request) <-chan answer {
	c.t.Helper()
	answers := make(chan answer, 1)
	before := redisstore.Queued(c.Store, requests[0].Key)
	go func() {
		out, err := store.Take(ctx, c, requests, detail)
		answers <- answer{out, err}
	}()
	until(c.t, before+1, "callers queue", func() int { return redisstore.Queued(c.Store, requests[0].Key) })
	return answers
}

// part opens the gate, and returns once those who came first are decided.
func (c *crowd) part() {
	c.gate.before.open()
	c.first.Wait()
}

// aboard brings those who queue onto a script that has not been written.
func (c *crowd) aboard() {
	c.t.Helper()
	c.gate.after.close()
	c.gate.before.open()
	until(c.t, redisstore.Aloft, "replies at the gate", c.gate.after.count)
	c.gate.before.close()
	c.gate.after.open()
	c.first.Wait()
	until(c.t, 1, "scripts at the gate", c.gate.before.count)
}

// sent brings those who queue onto a script that has been executed, and whose reply nobody has been told.
func (c *crowd) sent() {
	c.t.Helper()
	c.aboard()
	c.gate.after.close()
	c.gate.before.open()
	until(c.t, 1, "replies at the gate", c.gate.after.count)
}

// remaining is what is left of a hundred.
func (c *crowd) remaining(key string) int64 {
	c.t.Helper()
	return take(c.t, c, request(c.near(key), 100, 0)).Rules[0].Remaining
}

// TestCrowdIsDecidedInTurn holds that callers of different limits and algorithms who share a script are told what the model tells
// them one after the other.
func TestCrowdIsDecidedInTurn(t *testing.T) {
	clock := storetest.NewClock()
	c := newCrowd(t, redistest.Standalone(t).Client(t), redisstore.WithClock(clock.Now))
	model := memstore.New(memstore.WithClock(clock.Now))
	var pool []store.Request
	for _, req := range storetest.Requests(t, c.prefix, 5, time.Second) {
		pool = append(pool, req)
	}
	slices.SortFunc(pool, func(a, b store.Request) int { return strings.Compare(a.Key, b.Key) })
	random := rand.New(rand.NewPCG(1, 2))
	for range 4 {
		c.gather()
		var calls [][]store.Request
		var details []bool
		var answers []<-chan answer
		scripts := c.gate.scripts.Load()
		for range 30 {
			requests := drawSome(random, pool)
			detail := random.IntN(2) == 0
			calls, details = append(calls, requests), append(details, detail)
			answers = append(answers, c.join(t.Context(), detail, requests...))
		}
		c.part()
		for i, told := range answers {
			got := <-told
			want, err := store.Take(t.Context(), model, calls[i], details[i])
			if err != nil || got.err != nil {
				t.Fatalf("Take(%+v) = %v, and of the model %v", calls[i], got.err, err)
			}
			compareAnswers(t, calls[i], details[i], got.Outcome, want)
		}
		if n := c.gate.scripts.Load() - scripts; n != 1 {
			t.Errorf("30 callers took %d scripts, want 1", n)
		}
		clock.Move(time.Duration(random.Int64N(int64(time.Second))))
	}
}

// drawSome draws one to three requests of costs up to 2.
func drawSome(random *rand.Rand, pool []store.Request) []store.Request {
	var some []store.Request
	for _, i := range random.Perm(len(pool))[:1+random.IntN(3)] {
		req := pool[i]
		req.Cost = random.Int64N(3)
		some = append(some, req)
	}
	return some
}

// compareAnswers compares what the rules say, as far as it is asked for.
func compareAnswers(t *testing.T, requests []store.Request, detail bool, got, want store.Outcome) {
	t.Helper()
	for _, out := range []*store.Outcome{&got, &want} {
		out.Receipt = store.Receipt{}
		out.Rules = slices.Clone(out.Rules)
		for i := range out.Rules {
			if !detail {
				out.Rules[i].Remaining, out.Rules[i].ResetAfter = 0, 0
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Take(%+v, detail %v) (-model +store):\n%s", requests, detail, diff)
	}
}

// A caller who leaves the queue, or a script that is not written yet, is never charged; one who leaves later is, where the server
// decides. Nobody else notices.
func TestLeavingACrowd(t *testing.T) {
	clients := map[string]redis.UniversalClient{"": redistest.Standalone(t).Client(t), " of a cluster": redistest.NewCluster(t).Client(t)}
	for _, test := range []struct {
		name      string
		stage     func(*crowd) // brings the crowd to where one leaves
		on        func(*crowd) // lets it go on
		remaining int64
	}{
		{"queued", func(*crowd) {}, (*crowd).part, 100},
		{"aboard", (*crowd).aboard, func(c *crowd) { c.gate.before.open() }, 100},
		{"sent", (*crowd).sent, func(c *crowd) { c.gate.after.open() }, 99},
	} {
		for where, client := range clients {
			if test.name == "sent" && where != "" {
				continue // who shares a pipeline is told before the client's hooks are
			}
			t.Run(test.name+where, func(t *testing.T) {
				c := newCrowd(t, client)
				c.gather()
				one := c.join(t.Context(), false, request(c.near("stays"), 100, 1))
				ctx, leave := context.WithCancelCause(t.Context())
				left := c.join(ctx, false, request(c.near("leaves"), 100, 1))
				two := c.join(t.Context(), true, request(c.near("stays"), 100, 1))
				test.stage(c)
				cause := errors.New("changed my mind")
				leave(cause)
				if got := <-left; !errors.Is(got.err, context.Canceled) || !errors.Is(got.err, cause) {
					t.Errorf("Take of who left = %v, want %v for %v", got.err, context.Canceled, cause)
				}
				test.on(c)
				for _, told := range []<-chan answer{one, two} {
					if got := <-told; got.err != nil || !got.Allowed {
						t.Errorf("Take of who stayed = %v, %v, want allowed", got.Allowed, got.err)
					}
				}
				if n := c.remaining("leaves"); n != test.remaining {
					t.Errorf("%d of 100 remain of who left, want %d", n, test.remaining)
				}
				if n := c.remaining("stays"); n != 98 {
					t.Errorf("%d of 100 remain of who stayed, want 98", n)
				}
			})
		}
	}
}

// Where everybody on a script leaves, or a budget ends, those who come later do not wait for it.
func TestOverdueRides(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	for _, test := range []struct {
		name string
		opts []redisstore.Option
		want error
	}{
		{"all have left", nil, context.Canceled},
		{"a budget has ended", []redisstore.Option{redisstore.WithBudget(short)}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCrowd(t, client, test.opts...)
			c.gate.after.close()
			ctx, cancel := context.WithCancel(t.Context())
			var stuck sync.WaitGroup
			for range redisstore.Aloft {
				stuck.Go(func() {
					_, err := store.Take(ctx, c, []store.Request{request(c.prefix+"a", 100, 1)}, false)
					if test.want != nil && !errors.Is(err, test.want) || test.want == nil && classOf(err) != store.Indeterminate {
						t.Errorf("Take without an answer = %v, want %v", err, test.want)
					}
				})
			}
			until(t, redisstore.Aloft, "replies at the gate", c.gate.after.count)
			if test.want != nil {
				cancel()
			}
			stuck.Wait()
			stopped := c.gate.after.leave()
			if n := c.remaining("a"); n != 100-redisstore.Aloft {
				t.Errorf("%d of 100 remain, want %d", n, 100-redisstore.Aloft)
			}
			close(stopped)
			cancel()
		})
	}
}

// TestLeavingAtTheAnswer holds that a ride whose riders leave just as it lands gives its place up once: else more and more scripts would be on their way at once, of ever fewer calls each.
func TestLeavingAtTheAnswer(t *testing.T) {
	s, key := newStore(t, redistest.Standalone(t).Client(t)), redistest.Prefix(t)
	gone, leave := context.WithCancel(context.Background())
	leave()
	late, end := context.WithDeadline(context.Background(), time.Now())
	defer end()
	for i, ctx := range []context.Context{gone, late, gone, late} {
		redisstore.LeaveAtLanding(ctx, s, []store.Request{request(key, 100, 1)})
		if got, want := redisstore.Rides(s, key), [2]int{}; got != want {
			t.Fatalf("places taken, and riders, are %v after call %d, want none", got, i)
		}
	}
}

// A failure that is one caller's is not the others'.
func TestOneOfACrowdFails(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	t.Run("WRONGTYPE", func(t *testing.T) {
		c := newCrowd(t, client)
		client.Set(t.Context(), c.prefix+"theirs", "theirs", 0)
		t.Cleanup(func() { client.Del(context.Background(), c.prefix+"theirs") })
		oneFails(t, c, c.prefix+"theirs", "WRONGTYPE")
	})
	t.Run("NOPERM", func(t *testing.T) {
		server := redistest.Start(t)
		do(t, server.Client(t), append([]any{"acl", "setuser", "limiter", "reset"}, words(acl)...)...)
		c := newCrowd(t, server.Client(t, func(o *redis.Options) { o.Username, o.Password = "limiter", "pw" }))
		oneFails(t, c, "theirs", "permission")
	})
}

func words(text string) (all []any) {
	for _, word := range strings.Fields(text) {
		all = append(all, word)
	}
	return all
}

func oneFails(t *testing.T, c *crowd, theirs, want string) {
	t.Helper()
	c.gather()
	one := c.join(t.Context(), true, request(c.prefix+"a", 100, 1))
	wrong := c.join(t.Context(), true, request(c.prefix+"b", 100, 1), request(theirs, 100, 1))
	two := c.join(t.Context(), false, request(c.prefix+"a", 100, 1))
	c.part()
	for _, told := range []<-chan answer{one, two} {
		if got := <-told; got.err != nil || !got.Allowed {
			t.Errorf("Take beside one that fails = %v, %v, want allowed", got.Allowed, got.err)
		}
	}
	if got := <-wrong; classOf(got.err) != store.Misconfigured || !strings.Contains(got.err.Error(), want) {
		t.Errorf("Take of a key that fails = %v, want an error of class %v with %q", got.err, store.Misconfigured, want)
	}
	for key, want := range map[string]int64{"a": 98, "b": 100} {
		if n := c.remaining(key); n != want {
			t.Errorf("%d of 100 remain of %s, want %d", n, key, want)
		}
	}
}

// A script that is lost with its reply is executed once, and fails all whom it carried, which the breaker takes for one failure. One
// that the server does not know is sent with its text.
func TestFaultsOfACrowd(t *testing.T) {
	server := redistest.Standalone(t)
	for _, test := range []struct {
		name      string
		fault     func(*redistest.Proxy)
		class     store.Class
		remaining int64
	}{
		{"the reply is lost", func(p *redistest.Proxy) { p.Next(1, redistest.CutAfter, "evalsha") }, store.Indeterminate, 80},
		{"the script is lost", func(p *redistest.Proxy) { p.Next(1, redistest.CutBefore, "evalsha") }, store.Indeterminate, 100},
		{"the script is not known", func(*redistest.Proxy) { server.Client(t).ScriptFlush(t.Context()) }, 255, 80},
	} {
		t.Run(test.name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, server.Addr())
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
			t.Cleanup(func() { client.Close() })
			c := newCrowd(t, client)
			c.gather()
			var answers []<-chan answer
			for range 20 {
				answers = append(answers, c.join(t.Context(), false, request(c.prefix+"a", 100, 1)))
			}
			c.aboard()
			test.fault(proxy)
			c.gate.before.open()
			for _, told := range answers {
				if got := <-told; classOf(got.err) != test.class {
					t.Errorf("Take = %v, want an error of class %v", got.err, test.class)
				}
			}
			if n := c.remaining("a"); n != test.remaining {
				t.Errorf("%d of 100 remain, want %d", n, test.remaining)
			}
		})
	}
}

// A crowd at one key is admitted to the count exactly, whatever else shares its scripts.
func TestCrowdIsExact(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, p := newStore(t, client), redistest.Prefix(t)
	var allowed, others atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for range 10 {
				if take(t, s, request(p+"hot", 200, 1), request(p+fmt.Sprint(i), 1000, 1)).Allowed {
					allowed.Add(1)
				}
				if take(t, s, request(p+fmt.Sprint(i), 1000, 1)).Allowed {
					others.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if allowed.Load() != 200 || others.Load() != 640 {
		t.Errorf("%d and %d admitted, want 200 and 640", allowed.Load(), others.Load())
	}
}

// Of a long script and a short one, each would wait for the other.
func TestCrowdIsSharedOut(t *testing.T) {
	c := newCrowd(t, redistest.Standalone(t).Client(t))
	for _, callers := range []int{60, 100} {
		c.gather()
		var answers []<-chan answer
		for range callers {
			answers = append(answers, c.join(t.Context(), false, request(c.prefix+"a", 1000, 1)))
		}
		c.gate.after.close()
		c.gate.before.open()
		until(t, redisstore.Aloft, "replies at the gate", c.gate.after.count)
		c.gate.before.close()
		c.gate.after.open()
		until(t, redisstore.Aloft, "scripts at the gate", c.gate.before.count)
		if got, want := redisstore.Rides(c.Store, c.prefix+"a"), [2]int{redisstore.Aloft, callers}; got != want {
			t.Errorf("scripts, and callers on them, are %v, want %v", got, want)
		}
		c.gate.before.open()
		c.first.Wait()
		for _, told := range answers {
			<-told
		}
	}
	until(t, 0, "callers are on their way", func() int { return redisstore.Rides(c.Store, c.prefix+"a")[1] })
}

func TestShare(t *testing.T) {
	for _, test := range []struct{ queue, busy, most, want int }{
		{1, 0, 64, 1},
		{1, 64, 64, 1},
		{32, 0, 64, 32},
		{33, 0, 64, 32},
		{62, 1, 64, 32},
		{63, 2, 64, 33},
		{70, 29, 64, 50},
		{70, 40, 64, 55},
		{40, 60, 64, 40},
		{200, 64, 64, 64},
		{20, 0, 3, 3},
	} {
		if got := redisstore.Share(test.queue, test.busy, test.most); got != test.want {
			t.Errorf("Share(%d, %d, %d) = %d, want %d", test.queue, test.busy, test.most, got, test.want)
		}
	}
}

func TestBatching(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	if _, err := redisstore.New(client, redisstore.WithBatching(0)); err == nil {
		t.Error("New with a batching of 0 succeeds, want an error")
	}
	c := newCrowd(t, client, redisstore.WithBatching(3))
	c.gather()
	scripts := c.gate.scripts.Load()
	var answers []<-chan answer
	for range 7 {
		answers = append(answers, c.join(t.Context(), false, request(c.prefix+"a", 100, 1)))
	}
	c.part()
	for _, told := range answers {
		<-told
	}
	if n := c.gate.scripts.Load() - scripts; n != 3 {
		t.Errorf("7 callers took %d scripts of at most 3, want 3", n)
	}
}
