package dashboard

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxBans is how many bans are known at most.
const maxBans = 200

// ban is until when an id is banned.
type ban struct {
	who
	until time.Time
	told  bool
}

// bans are those that decisions have told of. They are safe for concurrent use, and the zero bans are none.
type bans struct {
	known atomic.Int64
	mu    sync.Mutex
	by    map[who]*ban
	over  []who // lifted before their time, and not told yet
}

// see takes note of a ban. Of one that is known, what differs by less than a second is no news.
func (b *bans) see(w who, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.by[w]; known != nil && known.until.Sub(until).Abs() < time.Second {
		return
	}
	if b.by == nil {
		b.by = make(map[who]*ban)
	}
	if len(b.by) >= maxBans && b.by[w] == nil {
		delete(b.by, b.soonest())
	}
	b.by[w] = &ban{who: w, until: until}
	b.known.Store(int64(len(b.by)))
}

// soonest is whose ban ends first.
func (b *bans) soonest() (first who) {
	var end time.Time
	for w, ban := range b.by {
		if end.IsZero() || ban.until.Before(end) {
			first, end = w, ban.until
		}
	}
	return first
}

// some says whether any are known.
func (b *bans) some() bool { return b.known.Load() > 0 }

// none takes note that an id is not banned.
func (b *bans) none(w who) {
	b.mu.Lock()
	known := b.by[w] != nil
	b.mu.Unlock()
	if known {
		b.lift(w)
	}
}

// lift takes note that an id is not banned any more, whether it was known to be or not.
func (b *bans) lift(w who) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.by, w)
	b.known.Store(int64(len(b.by)))
	if b.over = append(b.over, w); len(b.over) > maxBans {
		b.over = b.over[1:]
	}
}

// list returns the bans that last, the longest first.
func (b *bans) list(now time.Time) []ban {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []ban
	for w, ban := range b.by {
		if !ban.until.After(now) {
			delete(b.by, w)
			continue
		}
		all = append(all, *ban)
	}
	b.known.Store(int64(len(b.by)))
	sortBans(all)
	return all
}

func sortBans(all []ban) {
	slices.SortFunc(all, func(a, b ban) int {
		return cmp.Or(b.until.Compare(a.until), cmp.Compare(a.limit, b.limit), cmp.Compare(a.id, b.id))
	})
}

// unsent returns the bans, and those who are banned no longer, of which nobody is told yet, and takes note that they are.
func (b *bans) unsent() (begun []ban, over []who) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ban := range b.by {
		if !ban.told {
			ban.told = true
			begun = append(begun, *ban)
		}
	}
	over, b.over = b.over, nil
	return begun, over
}

// takeBack takes note that what was to be told is not.
func (b *bans) takeBack(begun []ban, over []who) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range begun {
		if known := b.by[one.who]; known != nil && known.until.Equal(one.until) {
			known.told = false
		}
	}
	b.over = append(over, b.over...)
	b.over = b.over[max(0, len(b.over)-maxBans):]
}
