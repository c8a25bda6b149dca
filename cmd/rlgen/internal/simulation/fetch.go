package simulation

import (
	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
	"github.com/rlgen/rlgen/ratelimit/memstore"
)

// fetcher reads a little of what is known of the ids of calls that are about to be decided. Where ids are many, it is in no cache of the processor: here it
// comes from memory for many calls at a time, when they are decided for one after the other.
type fetcher struct {
	cells []*memstore.Cell
	sum   int64 // of what is read, so that it is read
}

func (f *fetcher) fetch(calls []traffic.Call, from *memstore.Cells) {
	for i := range calls {
		c := &calls[i]
		f.meet(c.User)
		f.meet(c.Addr)
		f.meet(c.Key)
	}
	from.Fetch(f.cells)
	f.cells = f.cells[:0]
}

func (f *fetcher) meet(n *traffic.Name) {
	if n == nil {
		return
	}
	if k, ok := n.Own.(*known); ok {
		for i := range k.ones {
			who := &k.ones[i]
			f.sum += who.seen + who.few[1].at
			f.cells = append(f.cells, &who.cell)
		}
	}
}
