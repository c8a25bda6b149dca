package redisstore_test

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// act is a reset of one limit's key, or a ban, which 0 lifts.
type act struct {
	limit      int
	reset      bool
	ban        time.Duration
	start, end time.Duration
	failed     bool // the store may have done it all the same, and may yet
}

// done is when the store may have done it.
func (a *act) done() span {
	if a.failed {
		return span{a.start, a.end + phantom}
	}
	return span{a.start, a.end + skew}
}

// actsOn are those on a limit, in the order of their beginnings.
func (h *history) actsOn(limit int) (acts []act) {
	for _, a := range h.acts {
		if a.limit == limit {
			acts = append(acts, a)
		}
	}
	slices.SortFunc(acts, func(a, b act) int { return int(a.start - b.start) })
	return acts
}

// forgets says whether what the store held of a time surely was gone when the act had ended.
func (h *history) forgets(a act, held span) bool {
	return !a.failed && a.start > held.end && len(h.lossesIn(span{held.begin, a.end + unsure})) == 0
}

// closing is a ban that may have been.
type closing struct {
	began, ends span // between which instants
}

// closings are the bans of a limit that may have been: those that somebody asked for, and those by denials, of which each may have been the last that it took.
func (h *history) closings(limit int, acts []act) (all []closing) {
	req := &h.limits[limit]
	for _, a := range acts {
		if a.ban > 0 {
			began := a.done()
			all = append(all, closing{began, span{began.begin + a.ban, began.end + a.ban}})
		}
	}
	var begins, ends []time.Duration // of denials that may have been counted
	for i := range h.calls {
		if when, may := h.calls[i].mayCount(limit, req.Ban); may {
			begins, ends = append(begins, when.begin), append(ends, when.end)
		}
	}
	slices.Sort(begins)
	slices.Sort(ends)
	first := func(of []time.Duration, after time.Duration) int { // of those that are later
		return sort.Search(len(of), func(j int) bool { return of[j] > after })
	}
	for i := range h.calls {
		c := &h.calls[i]
		began, may := c.mayCount(limit, req.Ban)
		if !may || c.result == denied && c.bannedBy(limit) == 0 {
			continue
		}
		if most := first(begins, began.end) - first(ends, began.begin-req.Longest()-skew); int64(most) >= req.After {
			all = append(all, closing{began, span{began.begin + req.Ban, began.end + req.Ban}})
		}
	}
	return all
}

// mayCount says whether the call may be a denial that counts towards a limit's ban, and when the store may have counted it. Of those that are told of a ban, it
// is the one that brought it about.
func (c *call) mayCount(limit int, ban time.Duration) (when span, may bool) {
	for _, of := range c.charges {
		if of.limit != limit || of.cost == 0 {
			continue
		}
		switch {
		case c.result == denied && of.denies && (of.banned == 0 || of.banned == ban):
			return span{c.start, c.end}, true
		case c.result == indeterminate:
			return span{c.start, c.end + phantom}, true
		}
	}
	return span{}, false
}

// bannedBy is for how long a limit of the call said that it is banned; 0 if it did not.
func (c *call) bannedBy(limit int) time.Duration {
	for _, of := range c.charges {
		if of.limit == limit {
			return of.banned
		}
	}
	return 0
}

// isBanned says whether a limit said that it is banned.
func (c *call) isBanned() bool {
	return slices.ContainsFunc(c.charges, func(of charge) bool { return of.banned > 0 })
}

// remembered says whether the call was answered without the store.
func (c *call) remembered() bool { return c.source == "remembered: denied" }

// unbanned looks at every denial by a ban, and at every admission after one.
func (h *history) unbanned(limit int) []string {
	req := &h.limits[limit]
	if req.Ban == 0 {
		return nil
	}
	acts := h.actsOn(limit)
	var banned []*call
	for i := range h.calls {
		if c := &h.calls[i]; c.result == denied && c.bannedBy(limit) > 0 {
			banned = append(banned, c)
		}
	}
	slices.SortFunc(banned, func(a, b *call) int { return int(a.start - b.start) })
	if found := h.groundless(req, limit, acts, banned); found != nil {
		return found
	}
	return h.admittedInBan(req, limit, acts, banned)
}

// groundless looks for a denial by a ban that no closing explains, or one that was lifted before: of one from memory, the store's denials explain it.
func (h *history) groundless(req *store.Request, limit int, acts []act, banned []*call) []string {
	var asked, told []closing
	asked = h.closings(limit, acts)
	for _, c := range banned {
		if left := c.bannedBy(limit); !c.remembered() {
			told = append(told, closing{span{c.start, c.end}, span{c.start + left, c.end + left}})
		}
	}
	closings := map[bool][]closing{false: asked, true: told}
	for _, all := range closings {
		slices.SortFunc(all, func(a, b closing) int { return int(a.ends.begin - b.ends.begin) })
	}
	for _, c := range banned {
		left := c.bannedBy(limit)
		ends := span{c.start + left - skew, c.end + left + skew}
		all := closings[c.remembered()]
		last := sort.Search(len(all), func(j int) bool { return all[j].ends.begin > ends.end })
		explained := false
		for j := last - 1; j >= 0 && !explained; j-- {
			k := &all[j]
			explained = k.ends.meets(ends) && k.began.begin <= c.end && !slices.ContainsFunc(acts, func(a act) bool {
				return a.end < c.start && h.forgets(a, k.began)
			})
		}
		if !explained {
			return []string{fmt.Sprintf("bans: %s was banned at %v until %v to %v, want a ban that ends then", req.Key, c.start, ends.begin, ends.end)}
		}
	}
	return nil
}

// admittedInBan looks for an admission while a ban lasted of which the store had told somebody.
func (h *history) admittedInBan(req *store.Request, limit int, acts []act, banned []*call) []string {
	longest := time.Duration(0)
	for _, b := range banned {
		longest = max(longest, b.bannedBy(limit))
	}
	for i := range h.calls {
		c := &h.calls[i]
		if c.result != allowed || c.asks(limit) == 0 {
			continue
		}
		last := sort.Search(len(banned), func(j int) bool { return banned[j].start >= c.start })
		for j := last - 1; j >= 0 && banned[j].start+longest >= c.start; j-- {
			b := banned[j]
			if b.remembered() { // the store need not know of it any more
				continue
			}
			during := span{b.start, c.end}
			over := b.end >= c.start || b.start+b.bannedBy(limit)-skew <= c.end || len(h.lossesIn(during)) > 0
			if over || slices.ContainsFunc(acts, func(a act) bool { return a.done().meets(during) }) {
				continue
			}
			return []string{fmt.Sprintf("bans: %s admitted at %v to %v, want none: at %v it was banned for %v", req.Key, c.start, c.end, b.start, b.bannedBy(limit))}
		}
	}
	return nil
}
