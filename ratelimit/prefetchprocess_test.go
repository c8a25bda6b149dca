package ratelimit_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

const (
	prefetch = 100 * time.Millisecond // for so long the processes of these tests take permits ahead
	rush     = 200 * time.Microsecond // between calls
	lull     = 20 * time.Millisecond
	ample    = 30 * time.Second // is a budget that no call needs: one that is not decided may be charged
)

// crowdOf is the guard of a limit of all processes, which each of them takes permits of ahead.
func crowdOf(client redis.UniversalClient, budget time.Duration, rule rules.Rule) (*ratelimit.Limiter, *ratelimit.Guard, error) {
	s, err := redisstore.New(client, redisstore.WithBudget(budget))
	if err != nil {
		return nil, nil, err
	}
	l, err := ratelimit.New(s, silent, ratelimit.WithInstances(1))
	if err != nil {
		return nil, nil, err
	}
	g, err := l.Prepare(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Search", Limits: []rules.Limit{
		{Kind: rules.Global, Rules: []rules.Rule{rule}, Prefetch: prefetch, OnFail: rules.FailClosed},
	}})
	return l, g, err
}

// asked is what a process writes down of a call.
type asked struct {
	From, To int64 // ns since 1970: before the call was decided, and after
	Answer   answer
}

type answer int64

const (
	passedAhead answer = iota // by a permit that was taken ahead
	passedByStore
	deniedCall
	undecided
)

func (a asked) passed() bool { return a.Answer == passedAhead || a.Answer == passedByStore }

// askedSize is the size of one, as it is written.
var askedSize = int64(binary.Size(asked{}))

// caller is a process that calls on and on, until its standard input ends.
type caller struct {
	cmd *exec.Cmd
	in  io.Closer
	log string
}

// callerEnv has lines: the server's address, the budget, the rule's count and window, and the file to write calls to.
const callerEnv = "PREFETCH_TEST_CALLER"

func startCaller(t *testing.T, server *redistest.Server, budget time.Duration, rule rules.Rule) *caller {
	t.Helper()
	c := &caller{cmd: exec.Command(os.Args[0], "-test.run", "^TestPrefetchingCaller$"), log: filepath.Join(t.TempDir(), "calls")}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%v\n%d\n%v\n%s", callerEnv, server.Addr(), budget, rule.Count, rule.Window, c.log), "GOMAXPROCS=1")
	c.cmd.Stdout, c.cmd.Stderr = os.Stderr, os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	return c
}

// TestPrefetchingCaller is a process of the tests in this file.
func TestPrefetchingCaller(t *testing.T) {
	words := strings.Split(os.Getenv(callerEnv), "\n")
	if len(words) == 1 {
		t.Skip("is run by the tests of prefetching processes")
	}
	budget, _ := time.ParseDuration(words[1])
	count, _ := strconv.ParseInt(words[2], 10, 64)
	window, _ := time.ParseDuration(words[3])
	client := redis.NewClient(&redis.Options{Addr: words[0], DialerRetries: 1})
	defer client.Close()
	l, g, err := crowdOf(client, budget, rules.Rule{Count: count, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(words[4], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ended := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(ended) }()
	if err := call(g, log, ended); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// call calls until ended, in rushes and then so seldom that permits are left over, and writes down what becomes of each call before it makes the next.
func call(g *ratelimit.Guard, log io.Writer, ended <-chan struct{}) error {
	tick := time.NewTicker(rush)
	defer tick.Stop()
	for n := 0; ; n++ {
		switch n % 520 {
		case 0:
			tick.Reset(rush)
		case 500:
			tick.Reset(lull)
		}
		a := asked{From: time.Now().UnixNano()}
		d, _, err := g.Decide(context.Background())
		a.To = time.Now().UnixNano()
		switch {
		case err != nil && !errors.Is(err, ratelimit.ErrExceeded):
			a.Answer = undecided
		case !d.Allowed:
			a.Answer = deniedCall
		case d.Limits[0].Source == ratelimit.SourcePrefetch:
			a.Answer = passedAhead
		default:
			a.Answer = passedByStore
		}
		if err := binary.Write(log, binary.NativeEndian, a); err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		case <-tick.C:
		}
	}
}

// calls are those that the process has written down.
func (c *caller) calls(t *testing.T) []asked {
	t.Helper()
	f, err := os.Open(c.log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	all := make([]asked, info.Size()/askedSize)
	if err := binary.Read(io.LimitReader(f, int64(len(all))*askedSize), binary.NativeEndian, all); err != nil {
		t.Fatal(err)
	}
	return all
}

// end lets the process give back what it has, and returns once it has ended.
func (c *caller) end(t *testing.T) {
	t.Helper()
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("a process: %v", err)
	}
}

// kill ends the process at once, with all that it has taken ahead.
func (c *caller) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.cmd.Wait()
}

// callers are processes.
type callers []*caller

// passed is how many of all their calls have passed, and how many of these by permits that were taken ahead.
func (all callers) passed(t *testing.T) (n, ahead int) {
	for _, c := range all {
		for _, a := range c.calls(t) {
			if a.passed() {
				n++
			}
			if a.Answer == passedAhead {
				ahead++
			}
		}
	}
	return n, ahead
}

// await returns once so many calls have passed.
func (all callers) await(t *testing.T, want int) {
	t.Helper()
	if err := redistest.Poll(func() error {
		if n, _ := all.passed(t); n < want {
			return fmt.Errorf("%d calls have passed, want %d", n, want)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// most is how many calls surely passed within the same of all intervals of a length, at most: those that were begun after it had, and were
// answered before it ended.
func (all callers) most(t *testing.T, window time.Duration) (most int) {
	var passed []asked
	for _, c := range all {
		for _, a := range c.calls(t) {
			if a.passed() {
				passed = append(passed, a)
			}
		}
	}
	slices.SortFunc(passed, func(a, b asked) int { return int(a.From - b.From) })
	for i, first := range passed {
		begin, n := first.From/1000*1000, 0 // Redis counts in µs
		for _, a := range passed[i:] {
			if a.From >= begin+int64(window) {
				break
			}
			if a.To < begin+int64(window) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestPrefetchInProcesses has four processes take permits of one limit ahead, and call until there are none. As many calls pass as the limit allows, and
// not one more. Those of two processes that are killed take with them what they had at hand, which is two batches at most; what the others have
// left when they end is there again.
func TestPrefetchInProcesses(t *testing.T) {
	t.Parallel()
	for name, kills := range map[string]int{"all end": 0, "two are killed": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const count, batch = 8000, 1000
			server, rule := redistest.Start(t), rules.Rule{Count: count, Window: time.Hour}
			var all callers
			for range 4 {
				all = append(all, startCaller(t, server, ample, rule))
			}
			all.await(t, count/2)
			for _, c := range all[:kills] {
				c.kill(t)
			}
			if kills == 0 {
				all.await(t, count)
			} else {
				all.await(t, count*3/4)
			}
			for _, c := range all[kills:] {
				c.end(t)
			}
			passed, ahead := all.passed(t)
			rest := takeRest(t, server, rule)
			if lost := count - passed - rest; lost < 0 || lost > kills*(2*batch+1) {
				t.Errorf("%d calls passed, and %d after them, want %d in all but for what %d killed processes had", passed, rest, count, kills)
			}
			if kills == 0 && rest != 0 {
				t.Errorf("%d calls pass after the count did, want none", rest)
			}
			if ahead == 0 {
				t.Error("no call passed by a permit that was taken ahead")
			}
		})
	}
}

// takeRest calls until Redis denies it, and returns how many calls passed.
func takeRest(t *testing.T, server *redistest.Server, rule rules.Rule) (n int) {
	t.Helper()
	l, g, err := crowdOf(server.Client(t), ample, rule)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	for {
		d, _, err := g.Decide(t.Context())
		if err != nil && !errors.Is(err, ratelimit.ErrExceeded) {
			t.Fatal(err)
		}
		if !d.Allowed {
			return n
		}
		n++
	}
}

// TestPrefetchInWindows has processes call at many times the rate of their limit, while others of them are killed and started: no window has more calls than
// the limit allows, wherever it begins.
func TestPrefetchInWindows(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rule := rules.Rule{Count: 500, Window: 300 * time.Millisecond}
	var all callers
	for range 4 {
		all = append(all, startCaller(t, server, ample, rule))
	}
	for round := range 3 {
		all.await(t, 1000*(round+1))
		all[round].kill(t)
		all = append(all, startCaller(t, server, ample, rule))
	}
	all.await(t, 4000)
	for _, c := range all[3:] {
		c.end(t)
	}
	if _, ahead := all.passed(t); ahead == 0 {
		t.Error("no call passed by a permit that was taken ahead")
	}
	if most := all.most(t, rule.Window); most > int(rule.Count) {
		t.Errorf("%d calls passed within %v, want %d at most", most, rule.Window, rule.Count)
	}
}

// TestPrefetchOutlivesNoServer takes the server from processes that have permits at hand: they use them for as long as they are good, and then let no
// call pass, until the server is there again.
func TestPrefetchOutlivesNoServer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		down, up func(*redistest.Server, testing.TB)
	}{
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Resume},
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			rule := rules.Rule{Count: 8000, Window: time.Second}
			all := callers{startCaller(t, server, 200*time.Millisecond, rule), startCaller(t, server, 200*time.Millisecond, rule)}
			all.await(t, 1000)
			fault.down(server, t)
			gone := silence(t, server)
			for _, c := range all {
				c.awaitUndecided(t, gone.Add(prefetch))
			}
			back := time.Now()
			n, ahead := all.passed(t)
			fault.up(server, t)
			all.await(t, n+1000)
			for _, c := range all {
				c.end(t)
			}
			if ahead == 0 {
				t.Error("no call passed by a permit that was taken ahead")
			}
			for _, c := range all {
				for _, a := range c.calls(t) {
					from, to := time.Unix(0, a.From), time.Unix(0, a.To)
					if a.passed() && from.After(gone.Add(prefetch)) && to.Before(back) {
						t.Fatalf("a call passes %v after the server was gone, want none %v after it", from.Sub(gone), prefetch)
					}
				}
			}
		})
	}
}

// silence returns a time by which the server, which has been told to stop, answers nobody any more.
func silence(t *testing.T, server *redistest.Server) time.Time {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 5 * time.Millisecond, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	if err := redistest.Poll(func() error {
		if client.Ping(t.Context()).Err() == nil {
			return errors.New("the server answers")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return time.Now()
}

// awaitUndecided returns once a call of the process that was made after a time could not be decided.
func (c *caller) awaitUndecided(t *testing.T, after time.Time) {
	t.Helper()
	if err := redistest.Poll(func() error {
		for _, a := range c.calls(t) {
			if a.Answer == undecided && a.From > after.UnixNano() {
				return nil
			}
		}
		return errors.New("no call is undecided")
	}); err != nil {
		t.Error(err)
	}
}
