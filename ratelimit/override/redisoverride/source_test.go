package redisoverride_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// silent has go-redis say nothing of the connections that tests break.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	os.Exit(redistest.Main(m))
}

// shop is a limiter with one limit, 10,1h, which counts what it is told of overrides.
type shop struct {
	*ratelimit.Limiter
	guard *ratelimit.Guard
	told  chan error // of reloads
}

func (*shop) Observe(context.Context, *ratelimit.Decision, error) {}

func (s *shop) Reloaded(_ context.Context, err error) { s.told <- err }

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{told: make(chan error, 100)}
	l, err := ratelimit.New(memstore.New(), ratelimit.WithObserver(s))
	if err != nil {
		t.Fatal(err)
	}
	s.Limiter = l
	s.guard = l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{
		{Kind: rules.Global, Rules: []rules.Rule{{Count: 10, Window: time.Hour}}},
	}})
	return s
}

// count is that by which a call is decided; 0 where the limit is off.
func (s *shop) count(t *testing.T) int64 {
	t.Helper()
	d, _, err := s.guard.Decide(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Limits) == 0 {
		return 0
	}
	return d.Limits[0].Rules[0].Rule.Count
}

// run watches sources until the test ends.
func (s *shop) run(t *testing.T, interval time.Duration, sources ...override.Source) {
	t.Helper()
	w, err := override.New(s.Limiter, sources, override.WithInterval(interval))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// next waits until the shop is told of overrides, whether good or not.
func (s *shop) next(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.told:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("no overrides came into force in 20s")
		return nil
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// subscribed waits until so many listen to the channel.
func subscribed(t *testing.T, client redis.UniversalClient, n int64) {
	t.Helper()
	must(t, redistest.Poll(func() error {
		got := client.PubSubNumSub(context.Background(), redisoverride.Channel).Val()[redisoverride.Channel]
		if got != n {
			return fmt.Errorf("%d listen, want %d", got, n)
		}
		return nil
	}))
}

// What is set is told at once, whatever the interval.
func TestToldAtOnce(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := newShop(t)
	s.run(t, time.Hour, redisoverride.New(client))
	must(t, s.next(t)) // of a hash that is not there
	subscribed(t, client, 1)
	for _, step := range []struct {
		text string
		want int64
	}{{"20,1h", 20}, {"off", 0}, {"", 10}} {
		if step.text == "" {
			must(t, redisoverride.Delete(t.Context(), client, "Create"))
		} else {
			must(t, redisoverride.Set(t.Context(), client, "Create", step.text))
		}
		must(t, s.next(t))
		if got := s.count(t); got != step.want {
			t.Errorf("with %q the count is %d, want %d", step.text, got, step.want)
		}
	}
}

// What nobody tells of is read with the interval.
func TestToldByNobody(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := newShop(t)
	s.run(t, time.Millisecond, redisoverride.New(client))
	must(t, s.next(t))
	must(t, client.HSet(t.Context(), redisoverride.Key, "Create", "20,1h").Err())
	must(t, s.next(t))
	if got := s.count(t); got != 20 {
		t.Errorf("the count is %d, want 20", got)
	}
}

// What was told while nobody listened is read once somebody does.
func TestLostMessage(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	s := newShop(t)
	s.run(t, time.Hour, redisoverride.New(server.Client(t)))
	must(t, s.next(t))
	subscribed(t, client, 1)
	pipe := client.TxPipeline()
	pipe.ClientKillByFilter(t.Context(), "TYPE", "pubsub")
	pipe.HSet(t.Context(), redisoverride.Key, "Create", "20,1h")
	_, err := pipe.Exec(t.Context())
	must(t, err)
	must(t, s.next(t))
	if got := s.count(t); got != 20 {
		t.Errorf("the count is %d, want 20", got)
	}
}

// A server that restarts empty, or has something else under the key, is told of; what holds in the hash holds in place of the file.
func TestFileAndRedis(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := newShop(t)
	path := filepath.Join(t.TempDir(), "limits.yaml")
	must(t, os.WriteFile(path, []byte("limits:\n  Create: 30,1h\n"), 0o666))
	w, err := override.New(s.Limiter, []override.Source{override.File(path), redisoverride.New(client)})
	must(t, err)
	read := func(want int64) {
		t.Helper()
		must(t, w.Read(t.Context()))
		if got := s.count(t); got != want {
			t.Errorf("the count is %d, want %d", got, want)
		}
	}
	read(30)
	must(t, redisoverride.Set(t.Context(), client, "shop.Orders.Create", "20,1h"))
	read(20)
	must(t, redisoverride.Set(t.Context(), client, "shop.Orders.Create", "20,1hour"))
	if err := w.Read(t.Context()); err == nil || !strings.Contains(err.Error(), `rl:overrides: limit "shop.Orders.Create": rule "20,1hour" has the unknown unit`) {
		t.Errorf("Read = %v, want one about the unit", err)
	}
	if got := s.count(t); got != 20 {
		t.Errorf("the count is %d, want 20, which was good last", got)
	}
	must(t, redisoverride.Delete(t.Context(), client, "shop.Orders.Create"))
	read(30)
	must(t, client.Set(t.Context(), redisoverride.Key, "x", 0).Err())
	if err := w.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("Read = %v, want WRONGTYPE", err)
	}
	if got := s.count(t); got != 30 {
		t.Errorf("the count is %d, want 30", got)
	}
}

// Services that share a Redis have a hash and a channel each: a limit of one is no mistake in the other's.
func TestHashOfEachService(t *testing.T) {
	client := redistest.Start(t).Client(t)
	const one, two = "rl:overrides:one", "rl:overrides:two"
	s, other := newShop(t), newShop(t)
	s.run(t, time.Millisecond, redisoverride.New(client, redisoverride.WithKey(one)))
	other.run(t, time.Millisecond, redisoverride.New(client, redisoverride.WithKey(two)))
	must(t, redistest.Poll(func() error {
		n := client.PubSubNumSub(t.Context(), one, two, redisoverride.Channel).Val()
		if n[one] != 1 || n[two] != 1 || n[redisoverride.Channel] != 0 {
			return fmt.Errorf("%v listen, want one at each hash's own channel", n)
		}
		return nil
	}))
	must(t, redisoverride.Set(t.Context(), client, "Mail", "5,1h", redisoverride.WithKey(two)))
	must(t, redisoverride.Set(t.Context(), client, "Create", "20,1h", redisoverride.WithKey(one)))
	must(t, redistest.Poll(func() error {
		if got := s.count(t); got != 20 {
			return fmt.Errorf("the count is %d, want 20", got)
		}
		return nil
	}))
	const unknown = `rl:overrides:two: unknown limit "Mail"`
	for err := other.next(t); err == nil || !strings.Contains(err.Error(), unknown); {
		err = other.next(t)
	}
	if got := other.count(t); got != 10 {
		t.Errorf("the count of the other service is %d, want 10", got)
	}
	must(t, redisoverride.Delete(t.Context(), client, "Create", redisoverride.WithKey(one)))
	must(t, redistest.Poll(func() error {
		if got := s.count(t); got != 10 {
			return fmt.Errorf("the count is %d, want 10 again", got)
		}
		return nil
	}))
}

// A hash that is too large is refused whole, and what was in force stays so.
func TestTooLarge(t *testing.T) {
	client := redistest.Start(t).Client(t)
	s := newShop(t)
	w, err := override.New(s.Limiter, []override.Source{redisoverride.New(client)})
	must(t, err)
	must(t, redisoverride.Set(t.Context(), client, "Create", "20,1h"))
	must(t, w.Read(t.Context()))
	must(t, client.HSet(t.Context(), redisoverride.Key, "more", strings.Repeat(" ", redisoverride.MaxSize)).Err())
	want := fmt.Sprintf("found %d bytes in 2 fields, want at most %d bytes", redisoverride.MaxSize+len("Create20,1hmore"), redisoverride.MaxSize)
	if err := w.Read(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Read = %v, want one that says %s", err, want)
	}
	if got := s.count(t); got != 20 {
		t.Errorf("the count is %d, want 20, which was good last", got)
	}
	must(t, client.HDel(t.Context(), redisoverride.Key, "more").Err())
	must(t, w.Read(t.Context()))
}

func TestNewRefuses(t *testing.T) {
	for want, make := range map[string]func(){
		"redisoverride: a nil client, want one of the Redis that has the overrides": func() { redisoverride.New(nil) },
		"redisoverride: an empty key, want that of the hash, or no WithKey for rl:overrides": func() {
			redisoverride.New(redis.NewClient(&redis.Options{}), redisoverride.WithKey(""))
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("New panics with %v, want %s", got, want)
				}
			}()
			make()
		}()
	}
}

// On a Cluster a message reaches those who listen at any node.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t)
	client := cluster.Client(t)
	t.Cleanup(func() { client.Del(context.Background(), redisoverride.Key) })
	s := newShop(t)
	s.run(t, time.Hour, redisoverride.New(cluster.Client(t)))
	must(t, s.next(t))
	// Who listens is not known of other nodes: a change that is told before somebody listens is read as the listening begins.
	must(t, redisoverride.Set(t.Context(), client, "Create", "20,1h"))
	must(t, s.next(t))
	if got := s.count(t); got != 20 {
		t.Errorf("the count is %d, want 20", got)
	}
	must(t, redisoverride.Set(t.Context(), client, "Create", "21,1h"))
	must(t, s.next(t))
	if got := s.count(t); got != 21 {
		t.Errorf("the count is %d, want 21", got)
	}
}

// acl is the line of permissions of the package.
func acl(t *testing.T) (words []any) {
	t.Helper()
	doc, err := os.ReadFile("source.go")
	must(t, err)
	for line := range strings.Lines(string(doc)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "on" && fields[2] == ">pw" {
			for _, f := range fields[1:] {
				words = append(words, f)
			}
			return words
		}
	}
	t.Fatal("source.go has no line of permissions")
	return nil
}

// The permissions that the package lists are enough to be told; without the channel overrides come with the interval.
func TestPermissions(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client(t)
	must(t, admin.Do(t.Context(), append([]any{"acl", "setuser", "limiter", "reset"}, acl(t)...)...).Err())
	as := server.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "limiter", "pw", true })
	s := newShop(t)
	s.run(t, time.Hour, redisoverride.New(as))
	must(t, s.next(t))
	subscribed(t, admin, 1)
	must(t, redisoverride.Set(t.Context(), admin, "Create", "20,1h"))
	must(t, s.next(t))

	must(t, admin.Do(t.Context(), "acl", "setuser", "limiter", "resetchannels", "-subscribe").Err())
	s = newShop(t)
	s.run(t, time.Millisecond, redisoverride.New(as))
	must(t, s.next(t))
	must(t, redisoverride.Set(t.Context(), admin, "Create", "21,1h"))
	must(t, s.next(t))
	if got := s.count(t); got != 21 {
		t.Errorf("the count is %d, want 21", got)
	}
}

// By Sentinel the overrides are those of the master, and after a failover of the one that was promoted: what was set before holds on, and what is set then is told.
func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	client, replica := sentinel.Client(t), sentinel.Replica.Client(t)
	s := newShop(t)
	s.run(t, time.Hour, redisoverride.New(sentinel.Client(t)))
	must(t, s.next(t))
	subscribed(t, sentinel.Master.Client(t), 1)
	must(t, redisoverride.Set(t.Context(), client, "Create", "20,1h"))
	must(t, s.next(t))
	must(t, redistest.Poll(func() error {
		if got := replica.HGet(t.Context(), redisoverride.Key, "Create").Val(); got != "20,1h" {
			return fmt.Errorf("the replica has %q, want 20,1h", got)
		}
		return nil
	}))
	sentinel.Master.Kill(t)
	subscribed(t, replica, 1)
	if got := s.count(t); got != 20 {
		t.Errorf("the count is %d once the replica is master, want 20", got)
	}
	must(t, redistest.Poll(func() error {
		if err := redisoverride.Set(t.Context(), client, "Create", "21,1h"); err != nil {
			return err
		}
		if got := s.count(t); got != 21 {
			return fmt.Errorf("the count is %d, want 21", got)
		}
		return nil
	}))
}
