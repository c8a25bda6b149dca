package memstore

import (
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// door is what is known of the denials of one key whose limit has a ban. The zero door is open, and nobody has been denied.
type door struct {
	denials []int64 // when, µs, in ascending order of their coming; those that have closed it while it is closed
	closed  int64   // until when the key is banned, µs
	expires int64   // when none of this matters any more, µs
}

// left is for how much longer the door is closed.
func (d *door) left(now int64) time.Duration {
	if d == nil {
		return 0
	}
	return micros(max(0, d.closed-now))
}

// deny counts a denial at now, and closes the door if it is one too many. A clock that is set back leaves later ones behind, which count too.
func (d *door) deny(now int64, req *store.Request) {
	window := req.Longest().Microseconds()
	if d.closed != 0 {
		d.denials, d.closed = d.denials[:0], 0
	}
	d.denials = slices.DeleteFunc(d.denials, func(at int64) bool { return at <= now-window })
	d.denials = append(d.denials, now)
	d.expires = slices.Max(d.denials) + window
	if int64(len(d.denials)) >= req.After {
		d.closed = now + req.Ban.Microseconds()
		d.expires = d.closed
	}
}

// forgive forgets at now the denials since a call was charged that gives its permits back, as long as these count: it has kept them from whom was denied. It opens
// the door for whose closing too few are left; those that a closed door has kept out since are none, for it was the same call that has brought them.
func (d *door) forgive(now, charged int64, req *store.Request) {
	window := req.Longest().Microseconds()
	if charged <= now-window {
		return
	}
	if d == nil || d.closed != 0 && d.closed <= now {
		return
	}
	before := len(d.denials)
	d.denials = slices.DeleteFunc(d.denials, func(denied int64) bool { return denied >= charged })
	switch left := len(d.denials); {
	case left == before || d.closed != 0 && int64(left) >= req.After:
	case left == 0:
		d.closed, d.expires = 0, now
	default:
		d.closed, d.expires = 0, slices.Max(d.denials)+window
	}
}

// close closes the door for a time.
func (d *door) close(now int64, ban time.Duration) {
	d.denials, d.closed = d.denials[:0], now+ban.Microseconds()
	d.expires = d.closed
}

// open returns the door of a key, a new one if it has none.
func (sh *shard) open(now int64, key string, most int) *door {
	if d := sh.doors[key]; d != nil {
		return d
	}
	sh.sweepDoors(now, most)
	if sh.doors == nil {
		sh.doors = make(map[string]*door)
	}
	d := new(door)
	sh.doors[key] = d
	return d
}

// sweepDoors drops some doors that have expired, and one that has not where there are too many.
func (sh *shard) sweepDoors(now int64, most int) {
	looks := looksNew
	for key, d := range sh.doors {
		if d.expires <= now || len(sh.doors) >= most {
			delete(sh.doors, key)
		}
		if looks--; looks == 0 {
			return
		}
	}
}

// bar makes what the rules of keys have said, who are banned, that they deny for as long.
func (c call) bar(now int64, detail bool, out *store.Outcome) {
	answers := out.Rules
	for i := range c {
		req := c[i].req
		own := answers[:len(req.Rules)]
		answers = answers[len(req.Rules):]
		if req.Ban == 0 || req.Cost == 0 && !detail {
			continue
		}
		if left := c[i].shard.doors[req.Key].left(now); left > 0 {
			closeAll(own, left, req.Cost)
			out.Allowed = out.Allowed && req.Cost == 0
		}
	}
}

// refuse counts the denials of a call that is denied, by those keys that are not banned.
func (c call) refuse(now int64, most int, answers []store.RuleOutcome) {
	for i := range c {
		p := &c[i]
		own := answers[:len(p.req.Rules)]
		answers = answers[len(p.req.Rules):]
		if p.req.Ban == 0 || own[0].Banned > 0 || !p.req.Refused(own) {
			continue
		}
		d := p.shard.open(now, p.req.Key, most)
		d.deny(now, p.req)
		closeAll(own, d.left(now), p.req.Cost)
	}
}

func closeAll(answers []store.RuleOutcome, left time.Duration, cost int64) {
	for j := range answers {
		answers[j].Close(left, cost)
	}
}
