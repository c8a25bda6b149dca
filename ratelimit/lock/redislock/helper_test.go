package redislock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
)

// helperEnv makes the test binary a helper: a process that holds what the tests are about. Its value is the helper's name, the
// server's address and the helper's arguments, a line each.
const helperEnv = "REDISLOCK_TEST_HELPER"

var helpers = map[string]func(s *redislock.Store, args []string) error{
	"hold":  helpHold,
	"count": helpCount,
	"crowd": helpCrowd,
}

// help runs a helper and returns its exit code.
func help(words string) int {
	args := strings.Split(words, "\n")
	client := redis.NewClient(&redis.Options{Addr: args[1]})
	defer client.Close()
	s, err := redislock.New(client, redislock.WithBudget(10*time.Second))
	if err == nil {
		err = errors.Join(helpers[args[0]](s, args[2:]), s.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// helper is a helper's process.
type helper struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

// startHelper starts a helper, which is killed when the test ends.
func startHelper(t testing.TB, args ...string) *helper {
	t.Helper()
	h := &helper{cmd: exec.Command(os.Args[0])}
	h.cmd.Env = append(os.Environ(), helperEnv+"="+strings.Join(args, "\n"), "GOMAXPROCS=1")
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.out = bufio.NewScanner(out)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.cmd.Process.Kill(); h.cmd.Wait() })
	return h
}

func (h *helper) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := h.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// await reads the helper's lines until one begins with word, and returns what follows it there.
func (h *helper) await(t testing.TB, word string) string {
	t.Helper()
	for h.out.Scan() {
		if said, ok := strings.CutPrefix(h.out.Text(), word); ok {
			return strings.TrimSpace(said)
		}
	}
	t.Fatalf("the helper ended before it said %q", word)
	return ""
}

// helpHold locks args[0] with a lease of args[1], says so, and works, a line with the time each, until it has lost the lock; then it unlocks.
func helpHold(s *redislock.Store, args []string) error {
	lease, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	l, err := lock.New(s, lock.WithLease(lease))
	if err != nil {
		return err
	}
	ctx, hold, err := l.Lock(context.Background(), args[0])
	if err != nil {
		return err
	}
	fmt.Println("held", hold.Token())
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		fmt.Println("work", time.Now().UnixNano())
		<-tick.C
	}
	fmt.Println("lost", context.Cause(ctx))
	if err := hold.Unlock(); !errors.Is(err, lock.ErrLost) {
		return fmt.Errorf("Unlock of a lost lock = %v, want %v", err, lock.ErrLost)
	}
	fmt.Println("unlocked")
	return nil
}

// helpCount increments the counter in the file args[1] under the lock args[0] until it is args[2]. An increment is not
// atomic. It writes each increment to the file args[3]. After every args[4] increments one of the processes dies while it
// holds the lock, alternately before and after it has written the next increment.
func helpCount(s *redislock.Store, args []string) error {
	l, err := lock.New(s, lock.WithLease(countLease))
	if err != nil {
		return err
	}
	target, _ := strconv.Atoi(args[2])
	death, _ := strconv.Atoi(args[4])
	log, err := os.OpenFile(args[3], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	for done := false; !done; {
		ctx, hold, err := lockWithin(countWait, l, args[0])
		if errors.Is(err, lock.ErrLost) {
			continue // before this process had it
		}
		if err != nil {
			return err
		}
		if done, err = increment(ctx, args[1], target, death, log); err != nil {
			return err
		}
		if err := hold.Unlock(); err != nil && !errors.Is(err, lock.ErrLost) {
			return err
		}
	}
	return nil
}

// lockWithin locks name, or fails where that takes longer than wait, which is far more than it takes where all is well.
func lockWithin(wait time.Duration, l *lock.Locker, name string) (context.Context, *lock.Hold, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	inner, hold, err := l.Lock(ctx, name)
	if err != nil {
		cancel()
		return ctx, nil, fmt.Errorf("lock not had within %v: %w", wait, err)
	}
	context.AfterFunc(inner, cancel)
	return inner, hold, nil
}

const (
	countLease = time.Second
	countWait  = 2 * time.Minute
	countForm  = "%010d %020d\n"
)

// increment adds one to the counter in a file, unless it is target.
func increment(ctx context.Context, file string, target, death int, log io.Writer) (done bool, err error) {
	var n int
	var token int64
	text, err := os.ReadFile(file)
	if err != nil {
		return false, err
	}
	if _, err := fmt.Sscanf(string(text), countForm, &n, &token); err != nil {
		return false, fmt.Errorf("counter %q: %w", text, err)
	}
	if n >= target {
		return true, nil
	}
	if n%(2*death) == death && firstAt(file, n) {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	if lock.Token(ctx) <= token {
		return false, fmt.Errorf("token %d after %d, want more", lock.Token(ctx), token)
	}
	if ctx.Err() != nil {
		return false, nil // lost: not a live holder's increment
	}
	line := fmt.Appendf(nil, countForm, n+1, lock.Token(ctx))
	out, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return false, err
	}
	defer out.Close()
	if _, err := out.WriteAt(line, 0); err != nil {
		return false, err
	}
	if n > 0 && n%(2*death) == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	_, err = log.Write(line)
	return false, err
}

// firstAt reports whether no process has died yet when the counter in a file was n.
func firstAt(file string, n int) bool {
	died, err := os.OpenFile(fmt.Sprint(file, "-", n), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	died.Close()
	return true
}

// helpCrowd lets args[1] callers acquire the semaphore args[0] of args[2] over and over. Whoever has it is connected to the
// observer at args[3]. It ends when the observer does.
func helpCrowd(s *redislock.Store, args []string) error {
	callers, _ := strconv.Atoi(args[1])
	limit, _ := strconv.ParseInt(args[2], 10, 64)
	sem, err := lock.NewSemaphore(s, limit, lock.WithLease(crowdLease))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, p, err := sem.Acquire(ctx, args[0])
				if err != nil {
					continue
				}
				if visit(args[3]) != nil {
					cancel()
				}
				p.Release()
			}
		})
	}
	wg.Wait()
	return nil
}

const crowdLease = time.Second

// visit is seen by the observer from before it does anything until after it has done it.
func visit(observer string) error {
	conn, err := net.Dial("tcp", observer)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err != nil { // it has been seen
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	io.Copy(io.Discard, conn) // it has been seen off
	return nil
}
