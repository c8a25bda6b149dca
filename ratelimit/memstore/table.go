package memstore

// table has the keys of a shard that count by the same steps, each in one piece with what it holds: a call that looks for a key knows the place of all that it
// needs as soon as it knows the key's hash. Those whose places are taken stand in the next free ones behind them.
//
// What get and put return is good until the next put, sweep or evict, which move what they keep.
type table[T any, C countsOf[T]] struct {
	tags   []uint32  // of the keys in the slots; a power of two of them, of which half are free at least, so that most keys stand where they are looked for first
	slots  []slot[T] // as many
	used   int
	hand   int // where the next look is
	spares []T // that hold nothing, for new keys: the memory of some that are used no more
}

// slot is one key: what it holds, and when nothing of it counts any more. A bucket's is one line of a processor's memory.
type slot[T any] struct {
	key     string
	expires int64 // µs
	own     T
}

// free is the tag of a slot without a key.
const free = 0

// tag is what a table knows of a hash: those bits which do not choose the shard, and one that no free slot has.
func tag(hash uint64) uint32 { return uint32(hash>>32) | 1 }

// home is the slot, but for the table's size, at which a key stands unless that is taken.
func home(tag uint32) uint32 { return tag >> 1 }

const (
	fewestSlots = 8
	keptSlots   = 64 // of a table that has had so many: few keys that come and go are no reason to make it anew
	mostSpares  = 16 // bounds the memory of what is used no more
)

func (t *table[T, C]) len() int { return t.used }

// find returns the slot of a key, or the first free one where it would be found.
func (t *table[T, C]) find(tag uint32, key string) (at uint32, found bool) {
	mask := uint32(len(t.tags) - 1)
	for at = home(tag) & mask; t.tags[at] != free; at = (at + 1) & mask {
		if t.tags[at] == tag && t.slots[at].key == key {
			return at, true
		}
	}
	return at, false
}

func (t *table[T, C]) get(hash uint64, key string) (counts, *int64) {
	if len(t.tags) == 0 {
		return nil, nil
	}
	at, found := t.find(tag(hash), key)
	if !found {
		return nil, nil
	}
	s := &t.slots[at]
	return C(&s.own), &s.expires
}

func (t *table[T, C]) put(hash uint64, key string) (counts, *int64) {
	if t.used++; 2*t.used > len(t.tags) {
		t.resize(max(fewestSlots, 2*len(t.tags)))
	}
	at, _ := t.find(tag(hash), key)
	t.tags[at] = tag(hash)
	s := &t.slots[at]
	s.key = key
	if last := len(t.spares) - 1; last >= 0 {
		s.own, t.spares[last] = t.spares[last], s.own
		t.spares = t.spares[:last]
	}
	return C(&s.own), &s.expires
}

// resize gives all keys their slots of n.
func (t *table[T, C]) resize(n int) {
	tags, slots := t.tags, t.slots
	t.tags, t.slots, t.hand = make([]uint32, n), make([]slot[T], n), 0
	for i, tag := range tags {
		if tag != free {
			at, _ := t.find(tag, slots[i].key)
			t.tags[at], t.slots[at] = tag, slots[i]
		}
	}
}

// remove frees a slot, and moves up those behind it that would not be found past a free one.
func (t *table[T, C]) remove(at int) {
	t.used--
	if len(t.spares) < mostSpares {
		C(&t.slots[at].own).reset()
		t.spares = append(t.spares, t.slots[at].own)
	}
	mask := uint32(len(t.tags) - 1)
	gap := uint32(at)
	for i := (gap + 1) & mask; t.tags[i] != free; i = (i + 1) & mask {
		if away := (i - home(t.tags[i])) & mask; away >= (i-gap)&mask {
			t.tags[gap], t.slots[gap] = t.tags[i], t.slots[i]
			gap = i
		}
	}
	t.tags[gap], t.slots[gap] = free, slot[T]{}
}

// sweep looks a little further where most slots are free, and halves them where nearly all are.
func (t *table[T, C]) sweep(now int64, n int) {
	for looks := 8 * n; n > 0 && looks > 0 && t.used > 0; looks-- {
		t.hand &= len(t.tags) - 1
		switch {
		case t.tags[t.hand] == free:
			t.hand++
		case t.slots[t.hand].expires <= now:
			n--
			t.remove(t.hand)
		default:
			n--
			t.hand++
		}
	}
	if len(t.tags) > keptSlots && 8*t.used < len(t.tags) {
		t.resize(len(t.tags) / 2)
	}
}

func (t *table[T, C]) evict() {
	first, mask := -1, len(t.tags)-1
	for n, looks := 0, 0; n < 2*looksNew && looks <= mask; looks++ {
		at := (t.hand + looks) & mask
		if t.tags[at] == free {
			continue
		}
		if n++; first < 0 || t.slots[at].expires < t.slots[first].expires {
			first = at
		}
	}
	t.remove(first)
	t.hand = first
}
