package simulation

import "github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"

// fetcher reads a little of what is known of the ids of calls that are about to be decided. Where ids are many, it is in no cache of the processor: here it
// comes from memory for many calls at a time, when they are decided for one after the other.
type fetcher struct {
	list []*known
	sum  int64 // of what is read, so that it is read
}

func (f *fetcher) fetch(calls []traffic.Call) {
	for i := range calls {
		c := &calls[i]
		f.meet(c.User)
		f.meet(c.Addr)
		f.meet(c.Key)
	}
	for _, k := range f.list {
		if len(k.ones) > 0 {
			f.sum += k.ones[0].period
		}
	}
	for _, k := range f.list {
		for i := range k.ones {
			f.sum += k.ones[i].cell.Until().UnixMicro()
		}
	}
	f.list = f.list[:0]
}

func (f *fetcher) meet(n *traffic.Name) {
	if n == nil {
		return
	}
	if k, ok := n.Own.(*known); ok {
		f.list = append(f.list, k)
	}
}
