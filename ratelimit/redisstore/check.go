package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

//go:embed check.lua
var checkLua string

var _ store.Checker = (*Store)(nil)

// checkTime is how long a check may last, if a call may not last longer, where its context does not end it before.
const checkTime = 2 * time.Second

// patience is how long a check of the store may last.
func (s *Store) patience() time.Duration { return max(checkTime, s.budget) }

// Check finds out, before the first call, what would make calls of requests fail, or hurt them: permissions that the
// Redis user lacks, keys that another program uses, a client that does not suit the server, options of the client, a server
// that evicts keys, is far away, or whose clock is wrong. It sends what the permissions of the package permit and
// nothing else; what cannot be found out with them is a finding that says so. What is so at some masters of a Cluster, and not at all
// of them, names these.
//
// Of the keys of requests it charges none. Under the prefix of each it charges a key of its own, such as
// "rl:check", and gives that back. It lasts two seconds at most, or the budget if that is longer.
func (s *Store) Check(ctx context.Context, requests []store.Request) ([]store.Finding, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.patience(), rediscall.ErrBudget)
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
		c.expire(expired(ctx, false))
	}
	return c.results()
}

// expire ends a check with an error, at the servers that have not answered.
func (c *check) expire(err error) {
	silent := c.silent()
	if len(silent) == 0 {
		silent = []string{""}
	}
	for _, server := range silent {
		c.failAt(server, err)
	}
}

// find takes note of a finding that is about no server, or about the only one.
func (c *check) find(level slog.Level, format string, args ...any) {
	c.findAt("", level, format, args...)
}

// fail takes note of an error of no server, or of the only one, and reports whether there is one.
func (c *check) fail(err error) bool { return c.failAt("", err) }

// patient is the store for a check: one that waits as long as the check does, and counts nothing that fails.
func (s *Store) patient() *Store {
	patient := *s
	patient.budget, patient.lane = s.patience(), nil
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

// check is one run of [Store.Check].
type check struct {
	findings
	store  *Store
	budget time.Duration // of a call
	keys   []string      // of its own
}

// run asks the servers. Where one cannot be reached, there is no more to ask.
func (c *check) run(ctx context.Context, requests []store.Request) {
	if c.nodes(ctx) {
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

// timeouts are those of a client's options; those that are zero are go-redis's own, which nobody has chosen.
type timeouts struct {
	read, write, dial time.Duration
	heeds             bool // the ends of contexts
}

// options looks at those of the client.
func (c *check) options() {
	var times timeouts
	var dials int
	switch client := c.store.client.(type) {
	case ofOneServer:
		o := client.Options()
		times, dials = timeouts{o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.ContextTimeoutEnabled}, o.DialerRetries
		times.read, times.write = cmp.Or(times.read, -1), cmp.Or(times.write, -1) // the client has put its own in place of zero, and zero in place of none
	case *redis.ClusterClient:
		o := client.Options()
		times, dials = timeouts{o.ReadTimeout, o.WriteTimeout, o.DialTimeout, o.ContextTimeoutEnabled}, o.DialerRetries
		times.read, times.write = cmp.Or(times.read, -1), cmp.Or(times.write, -1)
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			c.find(slog.LevelWarn, "the client's ReadOnly, RouteByLatency or RouteRandomly is set: "+
				"decisions go to masters all the same, and the client needs further permissions for it: make a client of its own without them")
		}
		if o.MaxRedirects == 0 {
			c.find(slog.LevelWarn, "the client's MaxRedirects is none: calls of slots that move are decided without the server: leave it out")
		}
	default:
		c.find(slog.LevelWarn, "the client is a %T, of which it is not known whether all keys are at one server: "+
			"each limit of a call is asked for by itself: give the store the client that is in it, or embed a *redis.Client if it is one", client)
		return
	}
	c.times(times)
	if dials > 1 {
		c.find(slog.LevelInfo, "the client's DialerRetries is %d: while the server is down, calls wait for their budget: set it to 1", dials)
	}
}

// times compares the client's timeouts with the budget.
func (c *check) times(of timeouts) {
	var long []string
	most := 10 * c.budget
	if outlasts := of.read < 0 || of.read > most; outlasts && !of.heeds {
		long = append(long, "ReadTimeout is "+timeout(of.read))
	}
	if outlasts := of.write < 0 || of.write > most; outlasts && !of.heeds {
		long = append(long, "WriteTimeout is "+timeout(of.write))
	}
	if of.dial > most {
		long = append(long, "DialTimeout is "+timeout(of.dial))
	}
	if len(long) > 0 {
		c.find(slog.LevelInfo, "the client's ReadTimeout, WriteTimeout or DialTimeout is long for calls that may last %v (%s): "+
			"while the server does not answer, calls that have ended keep their connections for so long: set about %v", c.budget, strings.Join(long, ", "), 2*c.budget)
	}
	if of.read > 0 && of.read < c.budget {
		c.find(slog.LevelWarn, "the client's ReadTimeout is %v, where a call may last %v: calls end with it, and may have been charged: "+
			"raise it (read_timeout in a URL), or lower redisstore.WithBudget", of.read, c.budget)
	}
}

func timeout(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return d.String()
}

// nodes asks every server that decides, and reports whether one failed.
func (c *check) nodes(ctx context.Context) bool {
	var failed atomic.Bool
	take := func(server string, err error) {
		if c.failAt(server, rediscall.Explain("redisstore", err)) {
			failed.Store(true)
		}
	}
	ask := func(ctx context.Context, node *redis.Client) error {
		v := visit{c, node.Options().Addr}
		take(v.server, v.ask(ctx, node))
		return nil
	}
	switch client := c.store.client.(type) {
	case *redis.ClusterClient:
		take("", client.ForEachMaster(ctx, ask))
	default:
		v := visit{c, ""}
		take("", v.ask(ctx, client))
	}
	return failed.Load()
}

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

// look asks for the state behind a key, and behind that of its bans where it has some, and names them if that cannot be had.
func (c *check) look(ctx context.Context, req store.Request) error {
	req.Cost = 0
	_, err := store.Take(ctx, c.store, []store.Request{req}, true)
	var failed *store.Error
	if errors.As(err, &failed) {
		return &store.Error{Class: failed.Class, Err: fmt.Errorf("key %s: %w", asked(req), failed.Err)}
	}
	return err
}

// asked names what is read for a request.
func asked(req store.Request) string {
	if req.Ban > 0 {
		return req.Key + ", or that of its bans, " + doorKey(req.Key)
	}
	return req.Key
}
