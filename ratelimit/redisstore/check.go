package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

//go:embed check.lua
var checkLua string

var _ store.Checker = (*Store)(nil)

// checkTime is how long a check may last, where its context does not end it before.
const checkTime = 2 * time.Second

// Check finds out, before the first call, what would make calls of requests fail, or hurt them: permissions that the
// Redis user lacks, keys that another program uses, a client that does not suit the server, options of the client, a server
// that evicts keys, is far away, or whose clock is wrong. It sends what the permissions of the package permit and
// nothing else; what cannot be found out with them is a finding that says so.
//
// Of the keys of requests it charges none. Under the prefix of each it charges a key of its own, such as
// "rl:check", and gives that back. It lasts two seconds at most.
func (s *Store) Check(ctx context.Context, requests []store.Request) ([]store.Finding, error) {
	limited, cancel := context.WithTimeoutCause(ctx, checkTime, rediscall.ErrBudget)
	defer cancel()
	c := &check{store: s.patient(), budget: s.budget, keys: probes(requests)}
	c.options()
	ended := make(chan struct{})
	go func() { // the client heeds no context while it reads
		defer close(ended)
		c.run(limited, requests)
	}()
	select {
	case <-ended:
	case <-limited.Done():
		c.fail(expired(ctx, false))
	}
	return c.results()
}

// patient is the store for a check: one that waits as long as the check does, and counts nothing that fails.
func (s *Store) patient() *Store {
	patient := *s
	patient.budget, patient.lane = checkTime, nil
	patient.reckon()
	return &patient
}

// probes are keys of the check's own, one for each prefix of the requests' keys.
func probes(requests []store.Request) []string {
	var keys []string
	for i := range requests {
		prefix, _, _ := strings.Cut(requests[i].Key, ":")
		if key := prefix + ":check"; !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		keys = []string{rules.DefaultPrefix + ":check"}
	}
	return keys
}

// check is one run of [Store.Check]. Its results are safe for concurrent use.
type check struct {
	store  *Store
	budget time.Duration // of a call
	keys   []string      // of its own

	mu       sync.Mutex
	findings []store.Finding
	refusals []error // of class Misconfigured
	failure  error   // another one
}

func (c *check) find(level slog.Level, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := store.Finding{Level: level, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(c.findings, found) {
		c.findings = append(c.findings, found)
	}
}

// fail takes note of an error, and reports whether there is one.
func (c *check) fail(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		return false
	case !classIs(err, store.Misconfigured):
		c.failure = err
	case !slices.ContainsFunc(c.refusals, func(other error) bool { return other.Error() == err.Error() }):
		c.refusals = append(c.refusals, err)
	}
	return true
}

// results are what the check has found so far.
func (c *check) results() ([]store.Finding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := slices.Clone(c.findings)
	switch len(c.refusals) {
	case 0:
		return found, c.failure
	case 1:
		return found, c.refusals[0]
	}
	return found, &store.Error{Class: store.Misconfigured, Err: errors.Join(c.refusals...)}
}

// run asks the servers. Where one cannot be reached, there is no more to ask.
func (c *check) run(ctx context.Context, requests []store.Request) {
	sound := sync.OnceFunc(func() { c.sound(ctx) })
	silent := time.AfterFunc(checkTime/2, sound)
	err := c.nodes(ctx)
	silent.Stop()
	if err != nil && !classIs(err, store.Misconfigured) {
		sound()
	}
	if c.fail(err) {
		return
	}
	for _, key := range c.keys {
		if c.fail(c.charge(ctx, key)) {
			return
		}
	}
	for i := range requests {
		if err := c.look(ctx, requests[i]); c.fail(err) && !classIs(err, store.Misconfigured) {
			return
		}
	}
}

// options looks at those of the client.
func (c *check) options() {
	var read time.Duration
	var dials int
	var heeds bool // the ends of contexts
	switch client := c.store.client.(type) {
	case *redis.Client:
		o := client.Options()
		read, dials, heeds = o.ReadTimeout, o.DialerRetries, o.ContextTimeoutEnabled
	case *redis.Ring:
		o := client.Options()
		read, dials, heeds = cmp.Or(o.ReadTimeout, time.Second), o.DialerRetries, o.ContextTimeoutEnabled // 0 is go-redis's own, which nobody chose
	case *redis.ClusterClient:
		o := client.Options()
		read, dials, heeds = o.ReadTimeout, o.DialerRetries, o.ContextTimeoutEnabled
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			c.find(slog.LevelWarn, "the client's ReadOnly, RouteByLatency or RouteRandomly is set: "+
				"decisions go to masters all the same, and the client needs further permissions for it: make a client of its own without them")
		}
	default:
		return
	}
	if !heeds && (read <= 0 || read > 10*c.budget) {
		c.find(slog.LevelInfo, "the client's ReadTimeout is %s, where a call may last %v: "+
			"while the server does not answer, calls that have ended keep their connections for so long: set it to about %v", timeout(read), c.budget, 2*c.budget)
	}
	if dials > 1 {
		c.find(slog.LevelInfo, "the client's DialerRetries is %d: while the server is down, calls wait for their budget: set it to 1", dials)
	}
}

func timeout(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return d.String()
}

// doer is a client of one server, or of whatever the program has made.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// nodes asks every server that decides.
func (c *check) nodes(ctx context.Context) error {
	ask := func(ctx context.Context, node *redis.Client) error { return c.node(ctx, node) }
	var err error
	switch client := c.store.client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, ask)
	case *redis.Ring:
		err = client.ForEachShard(ctx, ask)
	default:
		err = c.node(ctx, client)
	}
	return rediscall.Explain("redisstore", err)
}

// node asks one server what it is, and what it permits.
func (c *check) node(ctx context.Context, node doer) error {
	if err := c.hello(ctx, node); err != nil {
		return err
	}
	args := []any{"eval", checkLua, 0}
	for _, key := range c.keys {
		args = append(args, key)
	}
	before := time.Now()
	reply, err := node.Do(ctx, args...).StringSlice()
	if err != nil {
		return err
	}
	if len(reply) < 3 {
		c.fail(errReply)
		return nil
	}
	c.clock(reply[0], reply[1], before, time.Now())
	c.memory(reply[2])
	c.permissions(reply[3:])
	return nil
}

// hello asks a server what it is. One that does not know HELLO is not asked.
func (c *check) hello(ctx context.Context, node doer) error {
	reply, err := node.Do(ctx, "hello").Result()
	if err != nil {
		if strings.HasPrefix(err.Error(), "ERR ") || redis.HasErrorPrefix(err, "NOPERM") {
			return nil
		}
		return err
	}
	is := fields(reply)
	_, cluster := c.store.client.(*redis.ClusterClient)
	switch mode := is["mode"]; {
	case mode == "sentinel":
		c.refuse("the server is a Sentinel", "make the client with redis.NewFailoverClient, or give it the master's address")
	case mode == "cluster" && c.isPlain():
		c.refuse("the server is a node of a Redis Cluster", "make the client with redis.NewClusterClient")
	case mode == "standalone" && cluster:
		c.refuse("the server is no Redis Cluster", "make the client with redis.NewClient")
	}
	if is["role"] == "replica" || is["role"] == "slave" {
		c.find(slog.LevelWarn, "the server is a replica, which decides nothing: "+
			"unless it is promoted soon, give the client the master's address, or make it with redis.NewFailoverClient")
	}
	if older(is["version"], 6, 2) && is["server"] == "redis" {
		c.find(slog.LevelWarn, "the server is Redis %s, want 6.2 or later: upgrade it", is["version"])
	}
	return nil
}

// isPlain says whether the client knows of one server alone.
func (c *check) isPlain() bool {
	_, plain := c.store.client.(*redis.Client)
	return plain
}

func (c *check) refuse(what, mend string) {
	c.fail(meaning{class: store.Misconfigured, mend: mend}.fail(errors.New(what)))
}

// fields are those of a HELLO's reply, which are texts.
func fields(reply any) map[string]string {
	is := make(map[string]string)
	set := func(name, value any) {
		n, _ := name.(string)
		if v, ok := value.(string); ok {
			is[n] = v
		}
	}
	switch reply := reply.(type) {
	case map[any]any:
		for name, value := range reply {
			set(name, value)
		}
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			set(reply[i], reply[i+1])
		}
	}
	return is
}

// older says whether a version is one before major.minor. What is no version is not.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (a < major || a == major && b < minor)
}

// mostSkew is how far a server's clock may be from this program's unnoticed.
const mostSkew = 10 * time.Second

// clock compares a server's clock with this program's, which decides nothing: one of them is wrong where they differ.
func (c *check) clock(seconds, micros string, before, after time.Time) {
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	if err != nil || err2 != nil || s == 0 {
		return
	}
	now := time.Unix(s, us*1000)
	if now.Before(before.Add(-mostSkew)) || now.After(after.Add(mostSkew)) {
		c.find(slog.LevelWarn, "the server's clock, which decides, is %v from this program's: "+
			"windows that begin by the clock begin at another time than callers expect, and a failover to a server that has the right time moves them: "+
			"synchronise the clocks", now.Sub(before).Round(time.Second))
	}
}

// memory looks at what INFO says of the server's.
func (c *check) memory(info string) {
	is := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			is[name] = value
		}
	}
	policy, known := is["maxmemory_policy"]
	switch {
	case !known:
		c.find(slog.LevelInfo, "whether the server evicts keys cannot be found out without the permission +info: "+
			"see that its maxmemory-policy is noeviction, for an evicted key is a fresh quota")
	case policy != "noeviction" && is["maxmemory"] != "0":
		c.find(slog.LevelWarn, "the server's maxmemory-policy is %s, and an evicted key is a fresh quota: "+
			"set it to noeviction, or use a server for the limiter alone", policy)
	}
}

// permissions refuses a user who lacks some: names of commands, followed by a key where they lack it there.
func (c *check) permissions(lacks []string) {
	if len(lacks) == 0 {
		return
	}
	var commands []string
	where := make(map[string][]string) // commands by the key on which they are not permitted
	for _, lack := range lacks {
		command, key, _ := strings.Cut(lack, " ")
		where[key] = append(where[key], command)
		if word := "+" + command; !slices.Contains(commands, word) {
			commands = append(commands, word)
		}
	}
	for key, names := range where {
		prefix, _, _ := strings.Cut(key, ":")
		if len(names) == keyCommands {
			c.refuse(fmt.Sprintf("the Redis user has no permission for keys of the prefix %q", prefix),
				fmt.Sprintf("ACL SETUSER … ~%s:*", prefix))
			return
		}
	}
	c.refuse("the Redis user has no permission for "+strings.Join(commands, " "), "ACL SETUSER … "+strings.Join(commands, " "))
}

// keyCommands is how many commands check.lua asks about for each key.
const keyCommands = 14

// charge takes a permit under a key of the check's own, gives it back, and measures how far away the server is.
func (c *check) charge(ctx context.Context, key string) error {
	req := store.Request{Key: key, Rules: []rules.Rule{{Count: maxLogCount, Window: time.Second}}, Cost: 1}
	out, err := store.Take(ctx, c.store, []store.Request{req}, false)
	if err != nil {
		return err
	}
	before := time.Now()
	if err := c.store.GiveBack(ctx, out.Receipt); err != nil {
		return err
	}
	if took := time.Since(before); took > c.budget/2 {
		c.find(slog.LevelWarn, "the server takes %v to answer, where a call may last %v: "+
			"calls will be decided without it: run it nearer, or raise redisstore.WithBudget", took.Round(time.Millisecond), c.budget)
	}
	return nil
}

// look asks for the state behind a key, and names the key if that cannot be had.
func (c *check) look(ctx context.Context, req store.Request) error {
	req.Cost = 0
	_, err := store.Take(ctx, c.store, []store.Request{req}, true)
	var failed *store.Error
	if errors.As(err, &failed) {
		return &store.Error{Class: failed.Class, Err: fmt.Errorf("key %s: %w", req.Key, failed.Err)}
	}
	return err
}
