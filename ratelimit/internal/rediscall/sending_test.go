package rediscall

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// TestSendingIsDecidedOnce has many commands abandoned while they are about to be written: one of both happens.
func TestSendingIsDecidedOnce(t *testing.T) {
	all := make([]sending, 100_000)
	begun, abandoned := make([]bool, len(all)), make([]bool, len(all))
	var met atomic.Int64
	meet := func(i int) { // neither is ahead of the other: on a busy machine one would have done all before the other begins
		for met.Add(1); met.Load() < 2*int64(i+1); {
			runtime.Gosched()
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		for i := range all {
			meet(i)
			begun[i] = all[i].begin()
		}
	})
	both.Go(func() {
		for i := range all {
			meet(i)
			abandoned[i] = all[i].abandon()
		}
	})
	both.Wait()
	for i := range all {
		s := &all[i]
		if begun[i] == abandoned[i] {
			t.Fatalf("begun %v, abandoned %v, want one of both", begun[i], abandoned[i])
		}
		if s.begun() != begun[i] || s.begin() != begun[i] || s.abandon() != abandoned[i] {
			t.Fatal("what has been decided changes")
		}
	}
}

// pausing is a hook that stops scripts just before the client gets hold of a connection for them.
type pausing struct{ arrived, goOn chan struct{} }

func (pausing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (pausing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p pausing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, ok := cmd.(command); ok {
			p.arrived <- struct{}{}
			<-p.goOn
		}
		return next(ctx, cmd)
	}
}

// increment is a script whose executions can be counted.
var increment = NewScript("return {ARGV[1] + 0, redis.call('INCR', KEYS[1])}")

// withNonce adds a nonce to a call of a script.
func withNonce(c *Call) *Call {
	c.Nonce = NewNonce()
	c.Words = append(c.Words, c.Nonce)
	return c
}

func incrementing(client redis.UniversalClient, key string) *Call {
	return withNonce(&Call{Package: "rediscall", Client: client, Script: increment, Words: []any{nil, nil, 1, key}})
}

// TestAbandonedIsNeverSent abandons a call that is about to be written: no matter how long its client goes on, the server never has it.
func TestAbandonedIsNeverSent(t *testing.T) {
	server := redistest.Standalone(t)
	counting := server.Client(t)
	key := redistest.Prefix(t)
	counting.ScriptLoad(t.Context(), increment.Eval[1].(string))
	p := pausing{make(chan struct{}), make(chan struct{})}
	client := server.Client(t)
	client.AddHook(p)
	c := incrementing(client, key)
	var run sync.WaitGroup
	run.Go(func() { c.Run(context.Background()) })
	<-p.arrived
	if !c.Abandon() || c.Sent() {
		t.Error("a call that is not written yet cannot be abandoned")
	}
	p.goOn <- struct{}{}
	run.Wait()
	if n := counting.Exists(t.Context(), key).Val(); n != 0 {
		t.Error("the server has executed an abandoned call")
	}
}

// TestAbandonRaces abandons calls at any time on their way: those whose end says that the server gets nothing of them are not executed,
// and the others once.
func TestAbandonRaces(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	key := redistest.Prefix(t)
	client.ScriptLoad(t.Context(), increment.Eval[1].(string))
	t.Cleanup(func() { client.Del(context.Background(), key) })
	want := int64(0)
	for i := range 2000 {
		c := incrementing(client, key)
		arrive := make(chan struct{})
		var run sync.WaitGroup
		run.Go(func() {
			close(arrive)
			if _, err := c.Run(context.Background()); err != nil {
				t.Error(err)
			}
		})
		<-arrive
		for range i % 400 { // a moment, which differs
			c.Sent()
		}
		if !c.Abandon() {
			want++
		}
		run.Wait()
	}
	got, err := client.Get(t.Context(), key).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%d of 2,000 calls were executed, want the %d that were not abandoned in time", got, want)
	}
	t.Logf("%d of 2,000 were too late to be abandoned", want)
}
