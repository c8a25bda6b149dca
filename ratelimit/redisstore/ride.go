package redisstore

import (
	"context"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
)

// Beside the number of decisions, which is the store's, these bound how long a ride keeps the server from others.
const (
	mostKeys  = 128
	mostUnits = 1000 // of cost, for each of which a log has a record; of one decision, as many as it likes
)

// ride is what the client writes to the server at once for several riders: a call of the script, or a pipeline of them, one for each of its cars.
type ride struct {
	lane *lane
	span span
	cars []*car // as many as the riders' keys have hash tags, where those of several tags cannot share a script

	riders int
	keys   int
	units  int64

	first     car // where there is no other, it takes no memory of its own
	firstCars [1]*car

	driven bool // by its caller

	// Under the lane's mu.
	aboard   int            // riders that have neither left nor landed
	hasty    int            // of those that have, by whose budgets the server is yet judged
	away     int            // cars that have not landed
	released bool           // its place in the lane is another's
	over     bool           // it has landed, but for cars that go on by themselves
	late     bool           // its caller drives it and should have been back
	pass     rediscall.Pass // by which it asks, once it may
	failure  error          // that of the first car that has landed and was not decided
}

// newRide makes a ride. None is used again: hooks of the client may keep its commands, which know it.
func newRide(l *lane) *ride {
	r := &ride{lane: l}
	r.cars = r.firstCars[:0]
	return r
}

// boards takes a rider from the queue, and returns false if the ride is full. A rider that has left is passed over.
func (r *ride) boards(waiting *rider) bool {
	if waiting.state.Load() != queued {
		return true
	}
	keys, units := len(waiting.requests), waiting.units()
	if n := r.riders; n > 0 && (n == r.lane.most || r.keys+keys > mostKeys || r.units+units > mostUnits) {
		return false
	}
	r.board(waiting)
	return true
}

func (r *ride) board(waiting *rider) {
	if r.riders == 0 {
		r.span.Context = waiting.ctx
	}
	r.span.include(waiting.budget)
	r.riders++
	r.keys += len(waiting.requests)
	r.units += waiting.units()
	c := r.carFor(waiting)
	c.riders = append(c.riders, waiting)
	r.aboard, c.aboard = r.aboard+1, c.aboard+1
	waiting.car = c
}

// carFor returns the car whose riders' script a rider can share, a new one where there is none.
func (r *ride) carFor(waiting *rider) *car {
	tag := ""
	if r.lane.tags {
		tag = hashTag(waiting.requests[0].Key)
	}
	for _, c := range r.cars {
		if c.tag == tag {
			return c
		}
	}
	return r.add(tag)
}

// add adds a car for riders of a tag.
func (r *ride) add(tag string) *car {
	c := &r.first
	if len(r.cars) > 0 {
		c = new(car)
	}
	c.ride, c.tag, c.riders, c.batch = r, tag, c.firstRider[:0], c.firstDecision[:0]
	r.cars = append(r.cars, c)
	r.away++
	return c
}

// fly decides for all riders that do not leave before. Where all have, it does not ask, nor for a pass, which may be the only one.
func (r *ride) fly() {
	asks, err := r.permit()
	switch {
	case err != nil:
		for _, c := range r.cars {
			c.refuse(err)
		}
	case asks:
		for _, c := range r.cars {
			c.prepare()
		}
		r.ask()
	}
}

// permit lets the ride ask the server, unless that is at rest, or nobody wants to know any more.
func (r *ride) permit() (asks bool, err error) {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	if r.aboard == 0 {
		return false, nil
	}
	r.pass, err = r.lane.server.Permit()
	return err == nil, err
}

// ask sends the cars. Of several hash tags, those that the server surely has not executed, and that may be sent again, go on by themselves: it may have moved the slot of one,
// for which callers of no other are to wait.
func (r *ride) ask() {
	switch {
	case !r.lane.tags:
		r.first.run()
	case len(r.cars) == 1:
		if r.first.call.Once(&r.span) {
			r.first.run()
		} else {
			r.first.goOn()
		}
	default:
		calls := make([]*rediscall.Call, len(r.cars))
		for i, c := range r.cars {
			calls[i] = &c.call
		}
		end := time.AfterFunc(time.Until(r.span.deadline), r.desert)
		defer end.Stop()
		for _, i := range rediscall.Together(&r.span, calls, func(i int) { r.cars[i].run() }) {
			r.cars[i].goOn()
		}
	}
}

// desert gives up the place of a ride whose riders have been told, or have left, and whose client has not come back all the same: a hook of its may keep it.
func (r *ride) desert() {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	r.lane.release(r)
}

// wait waits until those who have been told look at their answers.
func (r *ride) wait() {
	for _, c := range r.cars {
		if !c.apart {
			c.told.Wait()
		}
	}
}

// landed tells the breaker how the ride has landed, as one of its cars has: it has failed where none was decided. Where its riders have left, it may have failed for that: then the
// budgets of those whose deadlines were sooner say what there is to say of the server. Else the server has answered, be it that it was asked nothing any more. The lane's mu is held.
func (r *ride) landed(c *car, err error) {
	r.away--
	r.aboard, c.aboard, c.landed = r.aboard-c.aboard, 0, true
	if ofContext(err) && r.span.Err() != nil {
		if r.hasty > 0 {
			return
		}
		err = context.Canceled
	}
	c.disembark()
	if r.failure == nil {
		r.failure = err
	}
	switch {
	case err == nil:
		r.report(nil)
	case r.away == 0:
		r.report(r.failure)
	}
	if r.away > 0 {
		r.lane.deserted(r) // by those who have left the others
	}
}

// report tells the breaker what became of the ride, the first time. The lane's mu is held.
func (r *ride) report(err error) { r.pass.Report(err) }
