package traffic

import (
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
)

// Name is what calls call somebody: calls of one text have the same Name for as long as somebody needs it, so that who keeps something of an id keeps
// it there, and looks nothing up. Nil is the Name of nobody.
type Name struct {
	Text string
	// Own is for who takes the calls.
	Own any
	// Until is when the Name is needed last, µs since 1970: calls later than that may have another of the same text. Its table sees to the calls; who keeps
	// something that matters for longer puts it off.
	Until int64
}

// String is the text, empty of nobody.
func (n *Name) String() string {
	if n == nil {
		return ""
	}
	return n.Text
}

// Names is a table of names that forgets those that nobody needs, so that its memory is bounded by what is needed at a time. The zero Names is empty.
type Names struct {
	seed  maphash.Seed
	slots []slot // by hash, in the first free one from there; a power of two
	used  int
	most  int   // before those that nobody needs are forgotten
	sum   int64 // of what is fetched, so that it is
}

// slot is one place of a table; the zero slot is free.
type slot struct {
	hash  uint32 // of the name's text
	until uint32 // when the name was needed last, as far as was known, s since 1970: until then the name is not looked at
	name  *Name
}

// ask asks for the name of a text, which a call at a time has.
type ask struct {
	text []byte
	hash uint32
	at   int64
	name **Name // where it is to be
}

const (
	fewestNames = 1 << 10
	atOnce      = 128 // names that are fetched
)

// Of returns the name of a text that a call at a time has, nil if the text is empty. Nobody needs those any more that are needed before a time at last.
func (t *Names) Of(text []byte, at, before int64) (n *Name) {
	if len(text) > 0 {
		t.answer([]ask{{text: text, at: at, name: &n}}, before)
	}
	return n
}

// answer answers asks, of whose texts none is empty.
func (t *Names) answer(asks []ask, before int64) {
	if t.slots == nil {
		t.seed = maphash.MakeSeed()
		t.forget(before)
	}
	for i := range asks {
		asks[i].hash = uint32(maphash.Bytes(t.seed, asks[i].text))
	}
	t.fetch(asks)
	for i := range asks {
		*asks[i].name = t.of(&asks[i], before)
	}
}

// fetch reads a little of what answers to asks will look at. Where names are many, it is in no cache of the processor: here it comes from memory for many asks
// at a time.
func (t *Names) fetch(asks []ask) {
	mask := uint32(len(t.slots) - 1)
	for i := range asks {
		if n := t.slots[asks[i].hash&mask].name; n != nil {
			t.sum += n.Until + int64(n.Text[0])
		}
	}
}

func (t *Names) of(a *ask, before int64) *Name {
	if t.used >= t.most {
		t.forget(before)
	}
	s := t.slot(a.hash, a.text)
	if s.name == nil {
		t.used++
		*s = slot{hash: a.hash, name: &Name{Text: string(a.text)}}
	}
	s.name.Until = max(s.name.Until, a.at)
	return s.name
}

// slot returns the slot of a text, or the free one for it.
func (t *Names) slot(hash uint32, text []byte) *slot {
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.name == nil || s.hash == hash && s.name.Text == string(text) {
			return s
		}
	}
}

// forget drops the names that nobody needs, and makes room for half as many more as are left.
func (t *Names) forget(before int64) {
	left := t.slots[:0]
	now := seconds(before)
	for some := range slices.Chunk(t.slots, atOnce) {
		for i := range some {
			if s := &some[i]; s.name != nil && s.until <= now {
				t.sum += s.name.Until // from memory, for many at a time
			}
		}
		for i := range some {
			if s := &some[i]; s.name != nil && (s.until > now || s.renew() >= before) {
				left = append(left, *s)
			}
		}
	}
	t.used, t.most = len(left), max(fewestNames, len(left)+len(left)/2)
	t.slots = make([]slot, 1<<bits.Len(uint(2*t.most-1)))
	for _, s := range left {
		*t.free(s.hash) = s
	}
}

// renew looks up until when the name is needed, and returns that.
func (s *slot) renew() int64 {
	s.until = seconds(s.name.Until)
	return s.name.Until
}

// seconds is a time as slots have it, rounded down: those of the 22nd century are all one.
func seconds(at int64) uint32 { return uint32(min(max(0, at/1e6), math.MaxUint32)) }

// free returns the free slot for a text that has none.
func (t *Names) free(hash uint32) *slot {
	mask := uint32(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i].name != nil {
		i = (i + 1) & mask
	}
	return &t.slots[i]
}

// numbered is names by their numbers, some of which are forgotten as those of [Names] are.
type numbered struct {
	names []*Name
	text  func(i int) string
	used  int
	most  int // before those that nobody needs are forgotten
}

// of returns the name of a number that a call at a time has. Nobody needs those any more that are needed before another time at last.
func (t *numbered) of(i int, at, before int64) *Name {
	n := t.names[i]
	if n == nil {
		if t.used >= t.most {
			t.forget(before)
		}
		t.used++
		n = &Name{Text: t.text(i)}
		t.names[i] = n
	}
	n.Until = max(n.Until, at)
	return n
}

func (t *numbered) forget(before int64) {
	t.used = 0
	for i, n := range t.names {
		switch {
		case n == nil:
		case n.Until < before:
			t.names[i] = nil
		default:
			t.used++
		}
	}
	t.most = max(fewestNames, 2*t.used, len(t.names)/8)
}
