package memstore

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
)

// withHome returns a hash of a key, whose tag stands at home.
func withHome(home, key int) uint64 { return uint64(home)<<33 | uint64(key)<<40 }

// A table has what was put into it and not removed, whatever stood in the places, and at least half of its slots are free.
func TestTable(t *testing.T) {
	for _, homes := range []int{1, 3, 1000} { // at which keys are to stand
		var table table[bucket, *bucket]
		r := rand.New(rand.NewPCG(uint64(homes), 1))
		kept := map[int]int64{}
		hash := func(key int) uint64 { return withHome(key%homes*5, 0) }
		for n := range int64(20_000) {
			key := r.IntN(300)
			text := strconv.Itoa(key)
			want, found := kept[key]
			switch c, got := table.get(hash(key), text); {
			case found != (c != nil) || found && (*got != want || c.(*bucket).first.full != want):
				t.Fatalf("of %d homes: get(%d) = %+v, want %d, %v", homes, key, c, want, found)
			case !found:
				kept[key] = n
				c, expires := table.put(hash(key), text)
				if full := c.(*bucket).first.full; *expires != 0 || full != 0 {
					t.Fatalf("of %d homes: put(%d) holds %d until %d, want nothing", homes, key, full, *expires)
				}
				c.(*bucket).first.full, *expires = n, n
			default:
				at, _ := table.find(tag(hash(key)), text)
				table.remove(int(at))
				delete(kept, key)
			}
			if table.used != len(kept) || 2*table.used > len(table.tags) {
				t.Fatalf("of %d homes: %d of %d slots are used by %d keys", homes, table.used, len(table.tags), len(kept))
			}
		}
		for key := range kept {
			at, _ := table.find(tag(hash(key)), strconv.Itoa(key))
			table.remove(int(at))
			if c, _ := table.get(hash(key), strconv.Itoa(key)); c != nil {
				t.Fatalf("of %d homes: %d is removed, and there", homes, key)
			}
		}
		for i, s := range table.slots {
			if table.tags[i] != free || s.key != "" || s.expires != 0 || s.own.first.full != 0 {
				t.Fatalf("of %d homes: slot %d holds %+v when all is removed", homes, i, s)
			}
		}
	}
}

// What has expired is dropped by looking at as many keys, however few slots are taken, and the memory of a table goes with its keys.
func TestTableShrinks(t *testing.T) {
	var table table[bucket, *bucket]
	const keys = 10_000
	for i := range keys {
		_, expires := table.put(withHome(i, i), strconv.Itoa(i))
		*expires = int64(i % 100)
	}
	for range keys {
		table.sweep(98, looksNew)
	}
	if table.used != keys/100 || len(table.tags) > 8*table.used {
		t.Fatalf("%d keys are left in %d slots of those that have not expired, want %d in at most %d", table.used, len(table.tags), keys/100, 8*keys/100)
	}
	for i := 99; i < keys; i += 100 {
		if c, _ := table.get(withHome(i, i), strconv.Itoa(i)); c == nil {
			t.Fatalf("key %d has not expired, and is gone", i)
		}
	}
	for range keys {
		table.sweep(99, 1)
	}
	if table.used != 0 || len(table.tags) != keptSlots {
		t.Errorf("%d keys are left in %d slots when all have expired, want none in %d", table.used, len(table.tags), keptSlots)
	}
}

// A bucket's slot is one line of a processor's memory: what a call looks for is then fetched all at once.
func TestSlotOfABucket(t *testing.T) {
	if size := reflect.TypeFor[slot[bucket]]().Size(); size != 64 {
		t.Errorf("a slot has %d bytes, want 64", size)
	}
}
