package memstore

import (
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// queue is a leaky bucket with a wait: calls go on one after the other, each when those before it have drained, which
// takes window/count for each permit. It keeps what a bucket keeps, of its one rule: it is free when the bucket is full.
type queue struct {
	bucket
}

func (q *queue) ask(now int64, req *store.Request, rule rules.Rule) (retryAfter, delay time.Duration) {
	wait, most := q.of(now, rule).full-now, req.Wait.Microseconds()
	switch {
	case req.Cost == 0:
	case req.Cost > rule.Count:
		retryAfter = store.Never
	case wait > most:
		retryAfter = micros(wait - most)
	default:
		delay = micros(wait)
	}
	return retryAfter, delay
}

// describe says what one call could take: all of the count, or nothing.
func (q *queue) describe(now int64, req *store.Request, rule rules.Rule) (remaining int64, reset time.Duration) {
	wait := q.of(now, rule).full - now
	if wait <= req.Wait.Microseconds() {
		remaining = rule.Count
	}
	return remaining, micros(wait)
}

// charge notes how long the call is delayed.
func (q *queue) charge(now int64, req *store.Request, a admission) (ends, note int64) {
	note = q.of(now, req.Rules[0]).full - now
	return q.owe(now, req, a, line{}, false), note
}

// giveBack takes back the last call that was told to go on. If a later one was, the gap stays: that one will not go
// on earlier, and no other call could take the gap's place and keep its distance to those behind it.
func (q *queue) giveBack(now int64, req *store.Request, a admission) {
	for _, rule := range req.Rules {
		d := q.of(now, rule)
		back := -a.cost * d.window
		if steps, _ := d.move(back); d.full+steps == a.at+a.note {
			q.open(now, rule).owe(back)
		}
	}
}

// grant gives nothing back: the store refuses it of queues.
func (q *queue) grant(int64, *store.Request, int64) {}
