package redislock_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
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
	"github.com/rlgen/rlgen/testdata/suite"
)

// TestKilledHolder holds that the lock of a process that is gone is free when its lease ends, not before.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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

// TestResumedHolderDoesNotWork checks that a process which was stopped until its lease ended does no more work with the
// lock once it is resumed.
func TestResumedHolderDoesNotWork(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	name := redistest.Prefix(t)
	h := startHelper(t, "hold", server.Addr(), name, "300ms")
	h.await(t, "held")
	h.signal(t, syscall.SIGSTOP)
	client := server.Client(t)
	until(t, func() bool { return client.Exists(t.Context(), "rl:lock:{"+name+"}").Val() == 0 }) // the lease has ended
	resumed := time.Now()
	h.signal(t, syscall.SIGCONT)
	works := 0
	for h.out.Scan() {
		var at int64
		if _, err := fmt.Sscanf(h.out.Text(), "work %d", &at); err == nil && time.Unix(0, at).After(resumed) {
			works++
		}
	}
	if works > 1 { // it may have been stopped between the check of its context and the work
		t.Errorf("%d times worked after the lease had ended, want at most 1", works)
	}
	if err := h.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestCounter has some processes increment a counter that only the lock guards. Processes die while they hold the lock.
func TestCounter(t *testing.T) {
	t.Parallel()
	testCounter(t, 300, 6, 100)
}

func TestCounterOfManyProcesses(t *testing.T) {
	suite.NeedLong(t, "it makes 10,000 increments")
	testCounter(t, 10_000, 32, 1000)
}

// testCounter has processes count to target. One of them dies after every so many increments, others are killed.
func testCounter(t *testing.T, target, processes, death int) {
	server := redistest.Standalone(t)
	file, log := filepath.Join(t.TempDir(), "counter"), filepath.Join(t.TempDir(), "log")
	for name, text := range map[string]string{file: fmt.Sprintf(countForm, 0, 0), log: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"count", server.Addr(), redistest.Prefix(t), file, strconv.Itoa(target), log, strconv.Itoa(death)}
	var kills atomic.Int64
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			h := startHelper(t, args...)
			if i < processes/4 { // most likely while it waits for the lock
				at := rand.IntN(target)
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for logged(t, log) < at && !t.Failed() {
					<-tick.C
				}
				h.cmd.Process.Kill()
			}
			for err := h.cmd.Wait(); err != nil; err = h.cmd.Wait() {
				if status, ok := h.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
					t.Errorf("a helper ended with %v", err)
					return
				}
				kills.Add(1)
				h = startHelper(t, args...)
			}
		})
	}
	wg.Wait()
	if min := int64((target - 1) / death); kills.Load() < min {
		t.Errorf("%d helpers died, want at least %d", kills.Load(), min)
	}
	t.Logf("%d increments by %d processes, of which %d died", target, processes, kills.Load())
	checkCounts(t, log, target, kills.Load())
}

// logged returns how many increments are in a log.
func logged(t *testing.T, log string) int {
	info, err := os.Stat(log)
	if err != nil {
		t.Error(err)
		return math.MaxInt
	}
	return int(info.Size()) / len(fmt.Sprintf(countForm, 0, 0))
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

// TestCrowd has callers in several processes share a semaphore. Processes are killed while they hold permits.
func TestCrowd(t *testing.T) {
	t.Parallel()
	testCrowd(t, 300, 3, 20, 1)
}

func TestLargeCrowd(t *testing.T) {
	suite.NeedLong(t, "it lets 200 callers in 4,000 times")
	testCrowd(t, 4000, 8, 25, 6)
}

func testCrowd(t *testing.T, target int64, processes, callers, kills int) {
	const limit = 10
	server := redistest.Standalone(t)
	o := newObserver(t)
	args := []string{"crowd", server.Addr(), redistest.Prefix(t), strconv.Itoa(callers), strconv.Itoa(limit), o.Addr().String()}
	helpers := make([]*helper, processes)
	for i := range helpers {
		helpers[i] = startHelper(t, args...)
	}
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
	if most := o.most.Load(); most > limit || most < 2 { // how many meet depends on the machine
		t.Errorf("at most %d at the same time, want 2 to %d", most, limit)
	}
	t.Logf("%d times let in, %d at the same time at most, with %d kills", o.seen.Load(), o.most.Load(), kills)
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

// TestLostProcessesFreeTheSemaphore checks that the permits of a killed process are free when their lease ends, also where
// it has left waiters in the queue.
func TestLostProcessesFreeTheSemaphore(t *testing.T) {
	t.Parallel()
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
	client := server.Client(t)
	ends, err := client.ZRevRangeWithScores(t.Context(), "rl:sem:{"+name+"}", 0, 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	if len(ends) > 0 && time.UnixMicro(int64(ends[0].Score)).After(now.Add(crowdLease)) {
		t.Errorf("a permit ends at %v, want at most %v after %v", time.UnixMicro(int64(ends[0].Score)), crowdLease, now)
	}
	_, p, err := sem.AcquireN(context.Background(), name, 4)
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
}
