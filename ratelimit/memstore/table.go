package memstore

// table finds the entries of a shard by their keys. Those whose places are taken stand in the next free ones behind them.
type table struct {
	slots []slot // a power of two of them, of which half are free at least, so that most entries stand where they are looked for first
	used  int
}

// slot is one place of a table; the zero slot is free.
type slot struct {
	hash  uint64 // of the entry's key
	entry *entry
}

// fewestSlots is how many slots a table begins with.
const fewestSlots = 8

// home is the slot, but for the table's size, at which one of hash stands unless that is taken. The shard is chosen by the rest of the hash.
func home(hash uint64) uint64 { return hash / shardCount }

// get returns the entry of a key, nil if there is none.
func (t *table) get(hash uint64, key string) *entry {
	if len(t.slots) == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := home(hash); ; i++ {
		s := &t.slots[i&mask]
		if s.entry == nil || s.hash == hash && s.entry.key == key {
			return s.entry
		}
	}
}

// put adds an entry, whose key has none.
func (t *table) put(e *entry) {
	if t.used++; 2*t.used > len(t.slots) {
		t.grow()
	}
	t.place(slot{e.hash, e})
}

// grow doubles the slots.
func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(fewestSlots, 2*len(old)))
	for _, s := range old {
		if s.entry != nil {
			t.place(s)
		}
	}
}

// place puts s in the first slot for it that is free.
func (t *table) place(s slot) {
	mask := uint64(len(t.slots) - 1)
	i := home(s.hash)
	for t.slots[i&mask].entry != nil {
		i++
	}
	t.slots[i&mask] = s
}

// remove takes an entry out, and moves up those behind it that would not be found past a free slot.
func (t *table) remove(e *entry) {
	t.used--
	mask := uint64(len(t.slots) - 1)
	free := home(e.hash)
	for t.slots[free&mask].entry != e {
		free++
	}
	for i := free + 1; t.slots[i&mask].entry != nil; i++ {
		s := t.slots[i&mask]
		if away := (i - home(s.hash)) & mask; away >= i-free {
			t.slots[free&mask], free = s, i
		}
	}
	t.slots[free&mask] = slot{}
}
