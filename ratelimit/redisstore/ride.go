package redisstore

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
)

// Beside the number of decisions, which is the store's, these bound how long a ride keeps the server from others.
const (
	mostKeys  = 128
	mostUnits = 1000 // of cost, for each of which a log has a record; of one decision, as many as it likes
)

// ride is one call of the script on the decisions of several riders.
type ride struct {
	lane   *lane
	call   rediscall.Call
	span   span
	riders []*rider // those that are loaded stand first
	keys   int
	units  int64

	batch batch // of those that are loaded
	words []any

	firstRider    [1]*rider // where there is no other, these take no memory of their own
	firstDecision [1]decision
	firstWords    [2]any

	driven bool           // by its caller
	told   sync.WaitGroup // riders of several that have their answers, and have not looked at them yet

	// Under the lane's mu.
	aboard   int            // riders that have not left
	hasty    int            // of those that have, by whose budgets the server is yet judged
	released bool           // its place in the lane is another's
	over     bool           // it has landed
	late     bool           // its caller drives it and should have been back
	pass     rediscall.Pass // by which it asks, once it may
}

// newRide makes a ride. None is used again: hooks of the client may keep its command, which knows it.
func newRide(l *lane) *ride {
	r := &ride{lane: l}
	r.riders, r.batch = r.firstRider[:0], r.firstDecision[:0]
	return r
}

// boards takes a rider from the queue, and returns false if the ride is full. A rider that has left is passed over.
func (r *ride) boards(waiting *rider) bool {
	if waiting.state.Load() != queued {
		return true
	}
	keys, units := len(waiting.requests), waiting.units()
	if n := len(r.riders); n > 0 && (n == r.lane.most || r.keys+keys > mostKeys || r.units+units > mostUnits) {
		return false
	}
	r.board(waiting)
	return true
}

func (r *ride) board(waiting *rider) {
	waiting.ride = r
	if len(r.riders) == 0 {
		r.span.Context = waiting.ctx
	}
	r.span.include(waiting.budget)
	r.riders = append(r.riders, waiting)
	r.aboard++
	r.keys += len(waiting.requests)
	r.units += waiting.units()
}

// fly decides for all riders that do not leave before. Where all have, it does not ask, nor for a pass, which may be the only one.
func (r *ride) fly() {
	s := r.lane.store
	r.lane.mu.Lock()
	if r.aboard == 0 {
		r.lane.mu.Unlock()
		return
	}
	pass, err := r.lane.server.Permit()
	if err != nil {
		r.disembark()
		r.lane.mu.Unlock()
		r.land(nil, err)
		return
	}
	r.pass = pass
	r.lane.mu.Unlock()
	r.call.Package, r.call.Client, r.call.Cargo, r.call.Server = "redisstore", s.client, r, r.lane.server
	r.call.Script = rediscall.Script{Evalsha: s.script.evalsha, Eval: s.script.eval}
	r.call.Words = r.firstWords[:]
	reply, err := r.call.Run(&r.span)
	var verdicts []verdict
	if err == nil {
		verdicts, err = r.batch.decode(reply)
	}
	r.lane.mu.Lock()
	r.landed(err)
	r.lane.mu.Unlock()
	r.land(verdicts, err)
}

// disembark ends the riders' wait: they are about to be told. The lane's mu is held.
func (r *ride) disembark() {
	for _, rider := range r.riders {
		r.lane.waits.remove(rider)
	}
}

// landed tells the breaker how the ride has landed. Where its riders have left, it may have failed for that: then the budgets of those whose deadlines were sooner
// say what there is to say of the server. Else the server has answered, be it that it was asked nothing any more. The lane's mu is held.
func (r *ride) landed(err error) {
	if ofContext(err) && r.span.Err() != nil {
		if r.hasty > 0 {
			return
		}
		err = context.Canceled
	}
	r.disembark()
	r.report(err)
}

// report tells the breaker what became of the ride, the first time. The lane's mu is held.
func (r *ride) report(err error) { r.pass.Report(err) }

// Load returns the words that decide for those who have not left.
func (r *ride) Load() []any {
	if r.words != nil {
		return r.words
	}
	n := 0
	for i, rider := range r.riders {
		if rider.state.CompareAndSwap(queued, loaded) {
			r.riders[n], r.riders[i] = rider, r.riders[n]
			r.batch = append(r.batch, rider.decision)
			n++
		}
	}
	if n > 0 {
		r.words = r.lane.store.args(r.batch)
	}
	return r.words
}

// Unload lets riders leave again as if nothing had been sent.
func (r *ride) Unload() {
	for _, rider := range r.riders[:len(r.batch)] {
		rider.state.CompareAndSwap(loaded, queued)
	}
	clear(r.batch)
	r.batch, r.words = r.batch[:0], nil
}

// land gives all riders that have not left their answers. Where the server refuses one of several for a key of its own, each has to
// ask alone.
func (r *ride) land(verdicts []verdict, err error) {
	if err != nil && len(r.riders) > 1 && (redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "CROSSSLOT")) {
		verdicts, err = slices.Repeat([]verdict{{status: failed}}, len(r.riders)), nil
	}
	alone := len(r.riders) == 1
	for i, rider := range r.riders {
		if !rider.arrive() {
			continue
		}
		rider.err, rider.alone = err, alone
		if i < len(verdicts) {
			rider.verdict = verdicts[i]
		}
		if !alone {
			r.told.Add(1)
		}
		rider.landed <- struct{}{}
	}
}
