package simulation

import (
	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

// known is what a simulation keeps of a name of the traffic.
type known struct {
	ones []one // of each limit of each run that counts by such names, by [Limit.index]
}

// one is what a limit knows of an id.
type one struct {
	cell memstore.Cell
	hit  *hit
	seen int64     // by what counts the limit's ids: the last period in which it has called, counted from 1, or until when its key lives
	few  [2]window // of the first rules
	more *[]window // of the others
}

// window is how many calls there were in the newest one of a rule.
type window struct{ at, calls int64 }

// idOf returns what a limit of a kind counts a call by, nil if there is nothing.
func (s *Simulation) idOf(k rules.Kind, call *traffic.Call) *traffic.Name {
	switch k {
	case rules.Global:
		return &s.all
	case rules.IP:
		return call.Addr
	case rules.User:
		return call.User
	}
	return call.Key
}

// one returns what limit l knows of an id that calls at a time.
func (s *Simulation) one(l *Limit, id *traffic.Name, now int64) *one {
	k, ok := id.Own.(*known)
	if !ok {
		k = newKnown(s.limits[l.Kind])
		id.Own = k
	}
	who := &k.ones[l.index]
	if !l.outlives {
		l.ids.see(who, now)
	}
	id.Until = max(id.Until, l.ids.ends(now))
	return who
}

// known1 and known2 are known in one piece with what few limits know, which most simulations have.
type (
	known1 struct {
		known
		room [1]one
	}
	known2 struct {
		known
		room [2]one
	}
)

// newKnown returns what is known of a new id by so many limits.
func newKnown(limits int) *known {
	switch limits {
	case 1:
		k := new(known1)
		k.ones = k.room[:]
		return &k.known
	case 2:
		k := new(known2)
		k.ones = k.room[:]
		return &k.known
	}
	return &known{make([]one, limits)}
}

// window returns that of rule j.
func (o *one) window(j int) *window {
	if j < len(o.few) {
		return &o.few[j]
	}
	if j -= len(o.few); o.more == nil || j >= len(*o.more) {
		more := make([]window, j+1)
		if o.more != nil {
			copy(more, *o.more)
		}
		o.more = &more
	}
	return &(*o.more)[j]
}

// ids counts the ids of a limit within its longest window and the one before.
type ids struct {
	window    int64 // µs
	period    int64 // of the newest call, counted from 1
	this, old int   // how many have called in it, and in the one before but not in it
	most      int
}

// see counts an id that calls at a time.
func (s *ids) see(who *one, now int64) {
	switch period := now/s.window + 1; {
	case period == s.period:
	case period == s.period+1:
		s.old, s.this, s.period = s.this, 0, period
	default:
		s.old, s.this, s.period = 0, 0, period
	}
	if who.seen == s.period {
		return
	}
	if s.this++; who.seen > 0 && who.seen == s.period-1 {
		s.old--
	}
	who.seen = s.period
	s.most = max(s.most, s.this+s.old)
}

// ends is when an id that has called at a time is counted no more.
func (s *ids) ends(now int64) int64 { return (now/s.window + 2) * s.window }
