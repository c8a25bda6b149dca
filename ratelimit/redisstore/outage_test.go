package redisstore_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// outageLimit is the count of the limit that instances share in these tests, in an hour.
const outageLimit = 12

// told is what came of the calls of an instance: how many passed, and what the latest decision said.
type told struct {
	passed    int
	source    string
	instances int
	degraded  bool
}

// instance is one process's limiter, or what stands for one.
type instance interface {
	check() error
	// take makes calls for a user until one is denied, or most have passed.
	take(user string, most int) (told, error)
}

// inside is an instance inside the test's process.
type inside struct {
	limiter *ratelimit.Limiter
	guard   *ratelimit.Guard
}

// newInside returns an instance with one limit by user: of outageLimit in an hour, where of is not given.
func newInside(client *redis.Client, budget time.Duration, of ...rules.Limit) (*inside, error) {
	s, err := redisstore.New(client, redisstore.WithBudget(budget))
	if err != nil {
		return nil, err
	}
	l, err := ratelimit.New(s, ratelimit.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	limit := rules.Limit{Rules: []rules.Rule{{Count: outageLimit, Window: time.Hour}}}
	for _, given := range of {
		limit = given
	}
	limit.Kind = rules.User
	return &inside{l, l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{limit}})}, nil
}

func (i *inside) check() error { return i.limiter.Check(context.Background()) }

func (i *inside) take(user string, most int) (a told, err error) {
	ctx := ratelimit.WithUser(context.Background(), user)
	for range most {
		d, _, err := i.guard.Decide(ctx)
		if err != nil {
			return a, err
		}
		a.source, a.instances, a.degraded = d.Limits[0].Source.String(), d.Limits[0].Instances, d.Degraded != nil
		if !d.Allowed {
			break
		}
		a.passed++
	}
	return a, nil
}

// outageClient is a client that gives up soon.
func outageClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1})
}

// outside is an instance in a process of its own, which is told what to do on its standard input.
type outside struct {
	in  io.Writer
	out *bufio.Reader
}

const outsideAddr = "RATELIMIT_TEST_OUTSIDE"

func startOutside(t *testing.T, addr string) *outside {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOutsideInstance$")
	cmd.Env = append(os.Environ(), outsideAddr+"="+addr)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
	})
	return &outside{in, bufio.NewReader(out)}
}

func (o *outside) take(user string, most int) (a told, err error) {
	fmt.Fprintln(o.in, user, most)
	line, err := o.out.ReadString('\n')
	if err != nil {
		return a, err
	}
	_, err = fmt.Sscan(line, &a.passed, &a.source, &a.instances, &a.degraded)
	return a, err
}

func (o *outside) check() error {
	_, err := o.take("check", 0)
	return err
}

// TestOutsideInstance is the other process of [TestOutage].
func TestOutsideInstance(t *testing.T) {
	addr := os.Getenv(outsideAddr)
	if addr == "" {
		t.Skip("is run by TestOutage")
	}
	client := outageClient(addr)
	defer client.Close()
	i, err := newInside(client, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for {
		var user string
		var most int
		if _, err := fmt.Scanln(&user, &most); err != nil {
			return
		}
		var a told
		if user == "check" {
			err = i.check()
		} else {
			a, err = i.take(user, most)
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(a.passed, cmp.Or(a.source, "none"), a.instances, a.degraded)
	}
}

// outage counts the calls that pass before and during an outage, which down begins and up ends: of an id
// that has used up its limit, of one that has used half of it, and of a new one.
func outage(t *testing.T, all []instance, down, up func(testing.TB)) {
	n, passed := len(all), map[string]int{}
	take := func(i int, user string, most int, source string) (a told) {
		t.Helper()
		if err := redistest.Poll(func() (err error) {
			if a, err = all[i].take(user, most); err != nil {
				return err
			}
			passed[user] += a.passed
			if a.source != source {
				return fmt.Errorf("the call was decided by the %s, want the %s", a.source, source)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return a
	}
	for range 2 { // in the first round, those before do not know of those behind
		for i := range all {
			if err := all[i].check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	take(0, "spent", outageLimit, "store")
	take(1, "spent", 1, "store") // is denied
	take(0, "half", outageLimit/2, "store")
	down(t)
	for i := range all {
		for _, user := range []string{"spent", "half", "new"} {
			if a := take(i, user, 2*outageLimit, "local"); a.instances != n || !a.degraded {
				t.Errorf("the decision says %d instances, degraded %t, want %d, degraded", a.instances, a.degraded, n)
			}
		}
	}
	share := outageLimit / n
	for user, want := range map[string]int{
		"spent": outageLimit + n*share,
		"half":  outageLimit/2 + n*share,
		"new":   n * share,
	} {
		if passed[user] != want {
			t.Errorf("%d calls of %q passed, want %d", passed[user], user, want)
		}
	}
	up(t)
	take(0, "later", 1, "store")
}

// TestOutage holds what passes while the server is gone, to the call: three instances with a limit of 12 between them.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		outside  int // of the three, in processes of their own
		budget   time.Duration
		down, up func(*redistest.Server, testing.TB)
	}{
		{"killed and restarted", 0, 10 * time.Second, (*redistest.Server).Kill, (*redistest.Server).Restart},
		{"killed and restarted, three processes", 2, 10 * time.Second, (*redistest.Server).Kill, (*redistest.Server).Restart},
		{"frozen and resumed", 0, 500 * time.Millisecond, (*redistest.Server).Freeze, (*redistest.Server).Resume},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.Start(t)
			var all []instance
			for range 3 - test.outside {
				client := outageClient(server.Addr())
				t.Cleanup(func() { client.Close() })
				i, err := newInside(client, test.budget)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, i)
			}
			for range test.outside {
				all = append(all, startOutside(t, server.Addr()))
			}
			outage(t, all, func(t testing.TB) { test.down(server, t) }, func(t testing.TB) { test.up(server, t) })
		})
	}
}
