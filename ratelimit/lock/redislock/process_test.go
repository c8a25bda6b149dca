package redislock_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestKilledHolder holds that the lock of a process that is gone is free when its lease ends, not before.
func TestKilledHolder(t *testing.T) {
	server := redistest.Standalone(t)
	client := server.Client(t)
	now := func() time.Time {
		at, err := client.Time(context.Background()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	name := redistest.Prefix(t)
	h := startHelper(t, "hold", server.Addr(), name, "600ms")
	h.await(t, "held")
	h.signal(t, syscall.SIGKILL)
	h.cmd.Wait()
	begin := now()
	left, err := client.PTTL(context.Background(), "rl:lock:{"+name+"}").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, hold, err := lockWithin(countWait, newLocker(t, newStore(t, client)), name)
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Unlock()
	if took := now().Sub(begin); took < left {
		t.Errorf("Lock took %v, want the %v that were left of the lease", took, left)
	}
}

// TestFrozenHolder holds that a process which was stopped for longer than its lease learns that it has lost the lock before it works on,
// and leaves the next holder's alone, whose token is larger.
func TestFrozenHolder(t *testing.T) {
	server := redistest.Standalone(t)
	name := redistest.Prefix(t)
	h := startHelper(t, "hold", server.Addr(), name, "500ms")
	token, err := strconv.ParseInt(h.await(t, "held"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	h.signal(t, syscall.SIGSTOP)
	_, hold, err := newLocker(t, newStore(t, server.Client(t))).Lock(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	if hold.Token() <= token {
		t.Errorf("token of the next holder = %d, want more than %d", hold.Token(), token)
	}
	h.signal(t, syscall.SIGCONT)
	if cause := h.await(t, "lost"); !strings.HasPrefix(cause, lock.ErrLost.Error()) {
		t.Errorf("cause of the frozen holder's context = %q, want %v", cause, lock.ErrLost)
	}
	h.await(t, "unlocked")
	if err := h.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := hold.TTL(context.Background()); err != nil {
		t.Errorf("TTL of the next holder = %v, want nil", err)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

// TestResumedHolderDoesNotWork counts what a process does between its resumption and its learning that the lock is lost.
func TestResumedHolderDoesNotWork(t *testing.T) {
	server := redistest.Standalone(t)
	h := startHelper(t, "hold", server.Addr(), redistest.Prefix(t), "300ms")
	h.await(t, "held")
	h.signal(t, syscall.SIGSTOP)
	expired := time.NewTimer(time.Second)
	defer expired.Stop()
	<-expired.C
	resumed := time.Now()
	h.signal(t, syscall.SIGCONT)
	works := 0
	for h.out.Scan() {
		var at int64
		if _, err := fmt.Sscanf(h.out.Text(), "work %d", &at); err == nil && time.Unix(0, at).After(resumed) {
			works++
		}
	}
	if works > 1 { // it may have been stopped between its asking and its doing
		t.Errorf("%d times worked after the lease had ended, want at most 1", works)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestCounter lets 32 processes, some of which die while they hold the lock, increment a counter that nothing but the lock guards.
func TestCounter(t *testing.T) {
	target, processes := 10_000, 32
	if testing.Short() {
		target, processes = 400, 6
	}
	server := redistest.Standalone(t)
	file, log := filepath.Join(t.TempDir(), "counter"), filepath.Join(t.TempDir(), "log")
	for name, text := range map[string]string{file: fmt.Sprintf(countForm, 0, 0), log: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"count", server.Addr(), redistest.Prefix(t), file, strconv.Itoa(target), log}
	begin := time.Now()
	var kills atomic.Int64
	var wg sync.WaitGroup
	for range processes {
		wg.Go(func() {
			for first := true; ; first = false {
				h := startHelper(t, args...)
				if first && rand.IntN(4) == 0 { // mostly while it waits
					stop := time.AfterFunc(time.Second+rand.N(3*time.Second), func() { h.cmd.Process.Kill() })
					defer stop.Stop()
				}
				err := h.cmd.Wait()
				if err == nil {
					return
				}
				if status, ok := h.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
					t.Errorf("a helper ended with %v", err)
					return
				}
				kills.Add(1)
			}
		})
	}
	wg.Wait()
	if !testing.Short() && kills.Load() == 0 {
		t.Error("no helper was killed, want some")
	}
	t.Logf("%d increments by %d processes with %d kills in %v", target, processes, kills.Load(), time.Since(begin))
	checkCounts(t, log, target, kills.Load())
}

// checkCounts holds that the increments in a log are different ones, with growing tokens, and that no more than kills are
// not in it.
func checkCounts(t *testing.T, log string, target int, kills int64) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	count, token := 0, int64(0)
	for _, line := range lines[:len(lines)-1] {
		var n int
		var next int64
		if _, err := fmt.Sscanf(string(line), countForm, &n, &next); err != nil {
			t.Fatalf("log has %q: %v", line, err)
		}
		if n <= count || next <= token {
			t.Errorf("increment to %d with token %d after %d with %d, want more of both", n, next, count, token)
		}
		count, token = n, next
	}
	if missing := int64(target - (len(lines) - 1)); missing < 0 || missing > kills {
		t.Errorf("%d increments, want %d but for those of %d killed", len(lines)-1, target, kills)
	}
}

// observer counts who is connected.
type observer struct {
	net.Listener
	now, most, seen atomic.Int64
	connections     sync.WaitGroup
}

func newObserver(t *testing.T) *observer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &observer{Listener: l}
	o.connections.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			o.connections.Go(func() { o.watch(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); o.connections.Wait() })
	return o
}

func (o *observer) watch(conn net.Conn) {
	defer conn.Close()
	n := o.now.Add(1)
	defer o.seen.Add(1)
	defer o.now.Add(-1)
	for most := o.most.Load(); n > most && !o.most.CompareAndSwap(most, n); most = o.most.Load() {
	}
	conn.Write([]byte{1})
	io.Copy(io.Discard, conn) // until it leaves, or is killed
}

// TestCrowd lets 200 callers in 8 processes, which are killed now and then, share a semaphore of 10.
func TestCrowd(t *testing.T) {
	const limit = 10
	target, processes, callers, kills := int64(4000), 8, 25, 6
	if testing.Short() {
		target, processes, callers, kills = 300, 3, 20, 1
	}
	server := redistest.Standalone(t)
	o := newObserver(t)
	args := []string{"crowd", server.Addr(), redistest.Prefix(t), strconv.Itoa(callers), strconv.Itoa(limit), o.Addr().String()}
	helpers := make([]*helper, processes)
	for i := range helpers {
		helpers[i] = startHelper(t, args...)
	}
	begin := time.Now()
	for i := range kills {
		until(t, func() bool { return o.seen.Load() > target*int64(i+1)/int64(kills+1) })
		h := &helpers[rand.IntN(processes)]
		(*h).signal(t, syscall.SIGKILL)
		(*h).cmd.Wait()
		*h = startHelper(t, args...)
	}
	until(t, func() bool { return o.seen.Load() > target })
	o.Close()
	for _, h := range helpers {
		h.cmd.Wait()
	}
	if most := o.most.Load(); most > limit || most < 2 { // how many meet is the machine's business
		t.Errorf("at most %d at once, want several, and %d at most", most, limit)
	}
	t.Logf("%d times let in, %d at once at most, with %d kills in %v", o.seen.Load(), o.most.Load(), kills, time.Since(begin))
}

// until waits for f.
func until(t *testing.T, f func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(50 * time.Second)
	for !f() {
		if time.Now().After(end) {
			t.Fatal("took more than 50s")
		}
		<-tick.C
	}
}

// TestLostProcessesFreeTheSemaphore holds that all of the capacity is back a lease after its holders are gone.
func TestLostProcessesFreeTheSemaphore(t *testing.T) {
	server := redistest.Standalone(t)
	o := newObserver(t)
	name := redistest.Prefix(t)
	h := startHelper(t, "crowd", server.Addr(), name, "8", "4", o.Addr().String())
	until(t, func() bool { return o.seen.Load() > 20 })
	h.signal(t, syscall.SIGKILL)
	h.cmd.Wait()
	sem, err := lock.NewSemaphore(newStore(t, server.Client(t)), 4)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, p, err := sem.AcquireN(context.Background(), name, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if took := time.Since(begin); took > crowdLease+lock.WaiterLife+5*time.Second {
		t.Errorf("all of the capacity came back after %v, want %v", took, crowdLease)
	}
}
