package memstore

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// A table has what was put into it and not removed, whatever stood in the places, and at least half of its slots are free.
func TestTable(t *testing.T) {
	for _, homes := range []uint64{1, 3, 1000} { // at which entries are to stand
		var table table
		r := rand.New(rand.NewPCG(homes, 1))
		kept := map[int]*entry{}
		hash := func(key int) uint64 { return uint64(key) % homes * 5 * shardCount }
		for range 20_000 {
			key := r.IntN(300)
			e := kept[key]
			switch got := table.get(hash(key), strconv.Itoa(key)); {
			case got != e:
				t.Fatalf("of %d homes: get(%d) = %p, want %p", homes, key, got, e)
			case e == nil:
				kept[key] = &entry{key: strconv.Itoa(key), hash: hash(key)}
				table.put(kept[key])
			default:
				table.remove(e)
				delete(kept, key)
			}
			if table.used != len(kept) || 2*table.used > len(table.slots) {
				t.Fatalf("of %d homes: %d of %d slots are used by %d entries", homes, table.used, len(table.slots), len(kept))
			}
		}
		for key, e := range kept {
			table.remove(e)
			if table.get(hash(key), e.key) != nil {
				t.Fatalf("of %d homes: %d is removed, and there", homes, key)
			}
		}
		for i, s := range table.slots {
			if s != (slot{}) {
				t.Fatalf("of %d homes: slot %d holds %+v when all is removed", homes, i, s)
			}
		}
	}
}
