package redisstore

import (
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
)

// car is one call of the script on the decisions of those riders of a ride who can share it. It fails by itself.
type car struct {
	ride   *ride
	tag    string // the hash tag of the riders' keys, where a script decides on keys of one; else empty
	call   rediscall.Call
	riders []*rider // those that are loaded stand first

	batch batch // of those that are loaded
	words []any

	firstRider    [1]*rider // where there is no other, these take no memory of their own
	firstDecision [1]decision
	firstWords    [4]any

	told  sync.WaitGroup // riders that have their answers, and have not looked at them yet, where the ride has several
	apart bool           // it goes on by itself, and nobody else waits for it

	// Under the lane's mu.
	aboard int // riders that have neither left nor landed
	landed bool
}

// grow makes room for n riders.
func (c *car) grow(n int) {
	c.riders, c.batch = slices.Grow(c.riders, n), slices.Grow(c.batch, n)
}

// prepare makes ready the call, by whose words the client finds the server.
func (c *car) prepare() {
	l := c.ride.lane
	c.call.Package, c.call.Client, c.call.Cargo, c.call.Server = "redisstore", l.store.client, c, l.server
	c.call.Script = rediscall.Script{Evalsha: l.store.script.evalsha, Eval: l.store.script.eval}
	c.call.Nonce = rediscall.NewNonce()
	c.call.Words = c.firstWords[:2]
	if l.tags {
		c.firstWords[2], c.firstWords[3] = 1, c.riders[0].requests[0].Key
		c.call.Words = c.firstWords[:]
	}
}

// run makes the call, or goes on with one that was sent, and tells the riders what became of it.
func (c *car) run() {
	reply, err := c.call.Run(&c.ride.span)
	var verdicts []verdict
	if err == nil {
		verdicts, err = c.batch.decode(reply)
	}
	l := c.ride.lane
	err = l.server.At(err)
	l.mu.Lock()
	c.ride.landed(c, err)
	l.mu.Unlock()
	c.land(verdicts, err)
}

// goOn goes on with a call that was sent, and is to be sent again.
func (c *car) goOn() {
	c.apart = true
	go c.run()
}

// refuse ends a call that is not made.
func (c *car) refuse(err error) {
	l := c.ride.lane
	l.mu.Lock()
	c.disembark()
	l.mu.Unlock()
	c.land(nil, err)
}

// disembark ends the riders' wait: they are about to be told. The lane's mu is held.
func (c *car) disembark() {
	for _, r := range c.riders {
		c.ride.lane.waits.remove(r)
		if r.hasty {
			r.hasty = false
			c.ride.hasty--
		}
	}
}

// Load returns the words that decide for those who have not left.
func (c *car) Load() []any {
	if c.words != nil {
		return c.words
	}
	n := 0
	for i, r := range c.riders {
		if r.state.CompareAndSwap(queued, loaded) {
			c.riders[n], c.riders[i] = r, c.riders[n]
			c.batch = append(c.batch, r.decision)
			n++
		}
	}
	if n > 0 {
		c.words = c.ride.lane.store.args(c.batch, &c.call.Nonce)
	}
	return c.words
}

// Unload lets riders leave again as if nothing had been sent.
func (c *car) Unload() {
	for _, r := range c.riders[:len(c.batch)] {
		r.state.CompareAndSwap(loaded, queued)
	}
	clear(c.batch)
	c.batch, c.words = c.batch[:0], nil
}

// land gives all riders that have not left their answers. Where the server refuses one of several for a key of its own, each has to
// ask alone.
func (c *car) land(verdicts []verdict, err error) {
	if err != nil && len(c.riders) > 1 && (redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "CROSSSLOT")) {
		verdicts, err = slices.Repeat([]verdict{{status: failed}}, len(c.riders)), nil
	}
	alone := len(c.riders) == 1
	for i, r := range c.riders {
		if !r.arrive() {
			continue
		}
		r.err, r.alone = err, alone
		if i < len(verdicts) {
			r.verdict = verdicts[i]
		}
		if c.ride.riders > 1 {
			c.told.Add(1)
		}
		r.landed <- struct{}{}
	}
}
