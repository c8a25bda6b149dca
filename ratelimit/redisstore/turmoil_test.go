package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// turmoil lets faults happen to servers, one after the other, and records what these may have lost.
type turmoil struct {
	t        *testing.T
	draw     *rand.Rand
	begin    time.Time
	losses   []span
	happened map[string]int
	admins   map[*redistest.Server]*redis.Client

	mishaps []mishap
	settle  func()        // waits until the servers do what they did before the first fault
	data    func() string // names what the masters hold: others do after a restart and a promotion
}

// mishap is one fault.
type mishap struct {
	name    string
	times   int // in a round
	flushes bool
	happen  func()
}

func newTurmoil(t *testing.T, draw *rand.Rand, servers ...*redistest.Server) turmoil {
	c := turmoil{t: t, draw: draw, begin: time.Now(), happened: map[string]int{}, admins: map[*redistest.Server]*redis.Client{}}
	for _, server := range servers {
		c.admins[server] = server.Client(t, func(o *redis.Options) { o.ClientName, o.DialerRetries = "admin", 1 })
		do(t, c.admins[server], "ping")
	}
	return c
}

// common are the mishaps of a server that is drawn when each happens.
func (c *turmoil) common(server func() *redistest.Server) []mishap {
	tell := func(words ...any) func() { return func() { c.tell(server(), words...) } }
	return []mishap{
		{"SCRIPT FLUSH", 2, false, tell("script", "flush")},
		{"CLIENT KILL of all", 2, false, tell("client", "kill", "type", "normal", "skipme", "yes")},
		{"CLIENT PAUSE WRITE, 50 to 300 ms", 1, false, func() { c.tell(server(), "client", "pause", c.upTo(300), "write") }},
		{"CLIENT PAUSE ALL, 50 to 300 ms", 1, false, func() { c.tell(server(), "client", "pause", c.upTo(300), "all") }},
		{"SIGSTOP for 50 to 300 ms", 2, false, func() { c.freeze(server(), time.Duration(c.upTo(300))*time.Millisecond) }},
		{"FLUSHALL", 2, true, tell("flushall")},
	}
}

// round lets every mishap happen, in an order that is drawn, with a moment before each.
func (c *turmoil) round() {
	var deck []mishap
	for _, m := range c.mishaps {
		deck = append(deck, slices.Repeat([]mishap{m}, m.times)...)
	}
	c.draw.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	for _, m := range deck {
		c.watch(false, func() { c.pass(time.Duration(c.upTo(1500)) * time.Millisecond) })
		c.watch(m.flushes, m.happen)
		c.happened[m.name]++
	}
}

// watch records a loss if what happens flushes, or leaves masters with other data, as it may on a busy machine unasked.
func (c *turmoil) watch(flushes bool, happen func()) {
	begin, data := time.Since(c.begin), c.data()
	happen()
	c.settle()
	if flushes || c.data() != data {
		c.losses = append(c.losses, span{begin, time.Since(c.begin)})
	}
}

// pass waits: the calls go on meanwhile.
func (c *turmoil) pass(d time.Duration) { <-time.After(d) }

func (c *turmoil) upTo(ms int) int { return 50 + c.draw.IntN(ms-50) }

// tell sends a server a command that must succeed.
func (c *turmoil) tell(server *redistest.Server, words ...any) {
	c.t.Helper()
	if err := redistest.Poll(func() error { return c.admins[server].Do(context.Background(), words...).Err() }); err != nil {
		c.t.Fatalf("%v: %v", words, err)
	}
}

// freeze stops a server for a time that is too short for others to take its place; where the machine is busy it may not be.
func (c *turmoil) freeze(server *redistest.Server, d time.Duration) {
	server.Freeze(c.t)
	c.pass(d)
	server.Resume(c.t)
}

// role returns what the server's INFO says of its role, and an error unless it has a line.
func (c *turmoil) role(server *redistest.Server, line string) (string, error) {
	info, err := c.admins[server].Info(context.Background(), "replication").Result()
	if err == nil && !strings.Contains(info, line) {
		err = fmt.Errorf("redis says\n%swant %s", info, line)
	}
	return info, err
}

func (c *turmoil) wantRole(server *redistest.Server, role string) {
	c.t.Helper()
	if err := redistest.Poll(func() error { _, err := c.role(server, "role:"+role); return err }); err != nil {
		c.t.Fatal(err)
	}
}

// String is what happened, in a table.
func (c *turmoil) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	printCounts(w, c.happened)
	w.Flush()
	return text.String()
}

// wantNothingLeft closes the calls' client, and fails the test unless its connections end, and all keys of the masters in time.
func (c *turmoil) wantNothingLeft(client redis.UniversalClient, masters ...*redistest.Server) {
	c.t.Helper()
	ctx := context.Background()
	for _, master := range masters {
		for _, key := range c.admins[master].Keys(ctx, "*").Val() {
			if ttl := c.admins[master].PTTL(ctx, key).Val(); ttl == -1 {
				c.t.Errorf("%s has no time to live, want one", key)
			}
		}
	}
	if err := client.Close(); err != nil {
		c.t.Error(err)
	}
	if err := redistest.Poll(func() error {
		for _, admin := range c.admins {
			if list := admin.ClientList(ctx).Val(); strings.Contains(list, "name=soak") {
				return fmt.Errorf("a closed client has connections:\n%s", list)
			}
		}
		return nil
	}); err != nil {
		c.t.Error(err)
	}
	if err := redistest.Poll(func() error {
		for _, master := range masters {
			if n := c.admins[master].DBSize(ctx).Val(); n != 0 {
				return fmt.Errorf("%d keys are left, want none after %v", n, soakWindow)
			}
		}
		return nil
	}); err != nil {
		c.t.Error(err)
	}
}
