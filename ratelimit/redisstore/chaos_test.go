package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// chaos lets faults happen to a Sentinel's servers, one after the other, and records what they may have lost.
type chaos struct {
	t        *testing.T
	sentinel *redistest.Sentinel
	draw     *rand.Rand
	begin    time.Time
	losses   []span

	master, replica *redistest.Server
	data            string // names what the master holds: another one does after a restart and a promotion
	admins          map[*redistest.Server]*redis.Client
	happened        map[string]int
}

func newChaos(t *testing.T, sentinel *redistest.Sentinel, draw *rand.Rand) *chaos {
	c := &chaos{
		t: t, sentinel: sentinel, draw: draw, begin: time.Now(), master: sentinel.Master, replica: sentinel.Replica,
		admins: map[*redistest.Server]*redis.Client{}, happened: map[string]int{},
	}
	for _, server := range []*redistest.Server{sentinel.Master, sentinel.Replica} {
		c.admins[server] = server.Client(t, func(o *redis.Options) { o.ClientName, o.DialerRetries = "admin", 1 })
		do(t, c.admins[server], "ping")
	}
	c.settle()
	return c
}

// mishap is one fault.
type mishap struct {
	name   string
	times  int // in a round
	happen func(*chaos)
}

const flushAllMishap = "FLUSHALL"

var mishaps = []mishap{
	{"SCRIPT FLUSH", 2, func(c *chaos) { c.tell("script", "flush") }},
	{"CLIENT KILL of all", 2, func(c *chaos) { c.tell("client", "kill", "type", "normal", "skipme", "yes") }},
	{"CLIENT PAUSE WRITE, 50 to 300 ms", 1, func(c *chaos) { c.tell("client", "pause", c.upTo(300), "write") }},
	{"CLIENT PAUSE ALL, 50 to 300 ms", 1, func(c *chaos) { c.tell("client", "pause", c.upTo(300), "all") }},
	{"SIGSTOP for 50 to 300 ms", 2, func(c *chaos) { c.freeze(time.Duration(c.upTo(300)) * time.Millisecond) }},
	{flushAllMishap, 2, func(c *chaos) { c.tell("flushall") }},
	{"SIGKILL, and a restart with nothing", 2, (*chaos).restart},
	{"SIGKILL, and a promotion", 1, (*chaos).failOver},
	{"SIGSTOP until another is promoted", 1, (*chaos).partition},
}

// round lets every mishap happen, in an order that is drawn, with a moment before each.
func (c *chaos) round() {
	var deck []mishap
	for _, m := range mishaps {
		deck = append(deck, slices.Repeat([]mishap{m}, m.times)...)
	}
	c.draw.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	for _, m := range deck {
		c.watch(false, func() { c.pass(time.Duration(c.upTo(1500)) * time.Millisecond) })
		c.watch(m.name == flushAllMishap, func() { m.happen(c) })
		c.happened[m.name]++
	}
}

// watch records a loss if what happens flushes, or leaves a master with other data, as it may on a busy machine unasked.
func (c *chaos) watch(flushes bool, happen func()) {
	begin, data := time.Since(c.begin), c.data
	happen()
	c.settle()
	if flushes || c.data != data {
		c.losses = append(c.losses, span{begin, time.Since(c.begin)})
	}
}

// pass waits: the calls go on meanwhile.
func (c *chaos) pass(d time.Duration) { <-time.After(d) }

func (c *chaos) upTo(ms int) int { return 50 + c.draw.IntN(ms-50) }

// tell sends the master a command that must succeed.
func (c *chaos) tell(words ...any) { c.tellServer(c.master, words...) }

func (c *chaos) tellServer(server *redistest.Server, words ...any) {
	c.t.Helper()
	if err := redistest.Poll(func() error { return c.admins[server].Do(context.Background(), words...).Err() }); err != nil {
		c.t.Fatalf("%v: %v", words, err)
	}
}

// freeze stops the master for a time that is too short for the sentinels; where the machine is busy it may not be.
func (c *chaos) freeze(d time.Duration) {
	c.master.Freeze(c.t)
	c.pass(d)
	c.master.Resume(c.t)
}

func (c *chaos) restart() {
	c.master.Kill(c.t)
	c.master.Restart(c.t)
	c.tellServer(c.master, "replicaof", "no", "one") // which it began with, if it was the replica once
}

func (c *chaos) failOver() {
	c.master.Kill(c.t)
	c.wantRole(c.replica, "master")
	c.master.Restart(c.t)
}

// partition has two masters for a moment.
func (c *chaos) partition() {
	c.master.Freeze(c.t)
	c.wantRole(c.replica, "master")
	c.master.Resume(c.t)
}

// settle waits until the sentinels' master is one, and the other server follows it.
func (c *chaos) settle() {
	c.t.Helper()
	if err := redistest.Poll(c.follow); err != nil {
		c.t.Fatalf("the servers do not settle: %v", err)
	}
}

func (c *chaos) follow() error {
	addr, err := c.sentinel.MasterAddr()
	if err != nil {
		return err
	}
	if addr == c.replica.Addr() {
		c.master, c.replica = c.replica, c.master
	}
	info, err := c.role(c.master, "role:master")
	if err != nil {
		return err
	}
	c.data = regexp.MustCompile(`master_replid:\w+`).FindString(info)
	if _, err := c.role(c.replica, "role:master"); err == nil {
		host, port, _ := net.SplitHostPort(addr)
		c.admins[c.replica].Do(context.Background(), "replicaof", host, port)
	}
	_, err = c.role(c.replica, "master_link_status:up")
	return err
}

// role returns what the server's INFO says of its role, and an error unless it has a line.
func (c *chaos) role(server *redistest.Server, line string) (string, error) {
	info, err := c.admins[server].Info(context.Background(), "replication").Result()
	if err == nil && !strings.Contains(info, line) {
		err = fmt.Errorf("redis says\n%swant %s", info, line)
	}
	return info, err
}

func (c *chaos) wantRole(server *redistest.Server, role string) {
	c.t.Helper()
	if err := redistest.Poll(func() error { _, err := c.role(server, "role:"+role); return err }); err != nil {
		c.t.Fatal(err)
	}
}

// String is what happened, in a table.
func (c *chaos) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	printCounts(w, c.happened)
	w.Flush()
	return text.String()
}

// wantNothingLeft closes the calls' client, and fails the test unless its connections end, and all keys in time.
func (c *chaos) wantNothingLeft(client *redis.Client) {
	c.t.Helper()
	ctx := context.Background()
	c.settle()
	admin := c.admins[c.master]
	for _, key := range admin.Keys(ctx, "*").Val() {
		if ttl := admin.PTTL(ctx, key).Val(); ttl == -1 {
			c.t.Errorf("%s has no time to live, want one", key)
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
		if n := admin.DBSize(ctx).Val(); n != 0 {
			return fmt.Errorf("%d keys are left, want none after %v", n, soakWindow)
		}
		return nil
	}); err != nil {
		c.t.Error(err)
	}
}
