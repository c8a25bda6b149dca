package memstore

import (
	"math"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Cell is what one key has counted, outside of any store: it is for callers with a table of ids of their own, who then look an id up once where a
// store looks up each of its keys. The zero Cell holds nothing. It is used with one [Cells], and is not copied once it is.
type Cell struct {
	counts  counts // nil where it holds nothing yet
	steps   *steps // of counts
	expires int64  // µs
}

// Until is when nothing of the cell counts any more.
func (c *Cell) Until() time.Time {
	return time.UnixMicro(c.expires)
}

// Cells decides calls whose counts are in cells, by one goroutine at a time, at times that do not go back. The zero Cells is ready for use.
type Cells struct {
	shard   shard // names admissions, and has the doors; no keys
	places  call
	fetched int64 // what is fetched, so that it is
}

// Fetch reads a little of what calls will need whose counts are in cells. It changes nothing that can be seen: where cells are many, they are in no cache of
// the processor, and those of calls that are known some time before they are decided come from memory faster all at once than one by one.
func (s *Cells) Fetch(cells []*Cell) {
	for _, c := range cells {
		if c.counts != nil {
			s.fetched += c.expires + c.counts.fetch()
		}
	}
}

// Take decides one call as [Store.Take] does: request i counts in cells[i], each of which is another. Keys matter to limits with bans only. The requests
// must be valid, as [store.Validate] has it; fewer cells than requests, or a nil one, are a bug that panics.
func (s *Cells) Take(now time.Time, requests []store.Request, cells []*Cell, detail bool, out *store.Outcome) {
	s.find(now.UnixMicro(), requests, cells).decide(now.UnixMicro(), detail, math.MaxInt, out)
	if out.Allowed {
		out.Receipt.Requests = requests
	}
}

// GiveBack returns what receipt charged, of which request i has counted in cells[i].
func (s *Cells) GiveBack(now time.Time, receipt store.Receipt, cells []*Cell) {
	s.find(now.UnixMicro(), receipt.Requests, cells).giveBack(now.UnixMicro(), receipt)
}

// find returns the places of requests. What they hold is known, so that nothing is looked for in the shard, which has no keys.
func (s *Cells) find(now int64, requests []store.Request, cells []*Cell) call {
	s.places = s.places[:0]
	for i := range requests {
		steps := stepsOf(&requests[i])
		s.places = append(s.places, place{
			req: &requests[i], shard: &s.shard, steps: steps, counts: cells[i].hold(now, steps), expires: &cells[i].expires, live: true, known: true,
		})
	}
	return s.places
}

// hold returns what the cell counts, nothing of other steps, nor what has expired.
func (c *Cell) hold(now int64, steps *steps) counts {
	switch {
	case c.steps != steps:
		*c = Cell{counts: steps.counts(), steps: steps}
	case c.expires <= now:
		c.counts.reset()
	}
	return c.counts
}
