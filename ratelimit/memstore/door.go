package memstore

import (
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// door is the ban of one key, or the denials that may lead to one. The zero door has neither.
type door struct {
	denials []int64 // when the limit denied, µs; none during a ban
	closed  int64   // when the ban ends, µs
	expires int64   // when none of this matters any more, µs
}

// left is for how much longer the door is closed.
func (d *door) left(now int64) time.Duration {
	if d == nil {
		return 0
	}
	return micros(max(0, d.closed-now))
}

// deny counts a denial at now, and starts a ban if it is the last that the limit tolerates. After the
// clock was set back, denials of up to a window from now count too.
func (d *door) deny(now int64, req *store.Request) {
	window := req.Longest().Microseconds()
	d.denials = slices.DeleteFunc(d.denials, func(at int64) bool { return at <= now-window || at >= now+window })
	d.denials = append(d.denials, now)
	if int64(len(d.denials)) >= req.After {
		d.close(now, req.Ban)
		return
	}
	d.closed, d.expires = 0, slices.Max(d.denials)+window
}

// close starts a ban.
func (d *door) close(now int64, ban time.Duration) {
	d.denials, d.closed = d.denials[:0], now+ban.Microseconds()
	d.expires = d.closed
}

// open returns the door of a key, a new one if it has none. It returns nil if there is no room for
// another door, because there are most of them already, and those that it looks at are closed.
func (sh *shard) open(now int64, key string, most int) *door {
	if d := sh.doors[key]; d != nil {
		return d
	}
	if sh.sweepDoors(now, most); len(sh.doors) >= most {
		return nil
	}
	if sh.doors == nil {
		sh.doors = make(map[string]*door)
	}
	d := new(door)
	sh.doors[key] = d
	return d
}

// sweepDoors drops some doors that have expired. If there are most of them, it also looks for one
// that is not closed, and drops that: a flood of other ids ends no ban.
func (sh *shard) sweepDoors(now int64, most int) {
	looks := 0
	for key, d := range sh.doors {
		full := len(sh.doors) >= most
		if looks++; looks > looksNew && !full || looks > looksFull {
			return
		}
		if d.expires <= now || full && d.closed <= now {
			delete(sh.doors, key)
		}
	}
}

// looksFull is how many doors are looked at for a new one if there is no room for it.
const looksFull = 64

// bar denies the call if one of its keys is banned, and sets the outcome of the rules of such keys.
func (c call) bar(now int64, out *store.Outcome) {
	answers := out.Rules
	for i := range c {
		req := c[i].req
		own := answers[:len(req.Rules)]
		answers = answers[len(req.Rules):]
		if req.Ban == 0 {
			continue
		}
		if left := c[i].shard.doors[req.Key].left(now); left > 0 {
			closeAll(own, left)
			out.Allowed = false
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
		if d == nil {
			continue
		}
		d.deny(now, p.req)
		if left := d.left(now); left > 0 {
			closeAll(own, left)
		}
	}
}

func closeAll(answers []store.RuleOutcome, left time.Duration) {
	for j := range answers {
		answers[j].Close(left)
	}
}
