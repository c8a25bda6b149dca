package simulation

import "time"

// Bins is the course of the calls over time, in bins of one width that begin at its multiples. The width grows with the time that
// they span, so that there are never more than some thousands.
type Bins struct {
	Width int64 // µs
	Start int64 // of the first bin, µs since 1970
	List  []Bin

	runs []*Run
	rung int
}

// Bin is what happened in one of them.
type Bin struct {
	Calls   int64
	Allowed []int64 // of each run
	// Levels has for each run and each of its limits how much was used of the fullest id's fullest rule, 0 to 1, as far as calls
	// have asked.
	Levels [][]float64
}

// ladder are the widths, each a multiple of the one before.
var ladder = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute,
	10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 240 * time.Hour, 2400 * time.Hour, 24000 * time.Hour,
}

const mostBins = 6000

// at returns the bin of a time that is in none before the last.
func (b *Bins) at(t int64) *Bin {
	if b.List == nil {
		b.Width = ladder[0].Microseconds()
		b.Start = t - t%b.Width
	}
	for (t-b.Start)/b.Width >= mostBins && b.rung < len(ladder)-1 {
		b.widen()
	}
	for i := int((t - b.Start) / b.Width); i >= len(b.List); {
		b.List = append(b.List, b.empty())
	}
	return &b.List[len(b.List)-1]
}

func (b *Bins) empty() Bin {
	bin := Bin{Allowed: make([]int64, len(b.runs)), Levels: make([][]float64, len(b.runs))}
	for i, run := range b.runs {
		bin.Levels[i] = make([]float64, len(run.Limits))
	}
	return bin
}

// widen makes bins of the next width of those that there are.
func (b *Bins) widen() {
	b.rung++
	width := ladder[b.rung].Microseconds()
	start := b.Start - b.Start%width
	var list []Bin
	for i := range b.List {
		at := int((b.Start + int64(i)*b.Width - start) / width)
		for len(list) <= at {
			list = append(list, b.empty())
		}
		list[at].add(&b.List[i])
	}
	b.Width, b.Start, b.List = width, start, list
}

// add adds what happened in another bin.
func (b *Bin) add(other *Bin) {
	b.Calls += other.Calls
	for i := range b.Allowed {
		b.Allowed[i] += other.Allowed[i]
		for j := range b.Levels[i] {
			b.Levels[i][j] = max(b.Levels[i][j], other.Levels[i][j])
		}
	}
}

// Merged returns at most n bins, each of several of b's, and their width.
func (b *Bins) Merged(n int) (list []Bin, width time.Duration) {
	each := max(1, (len(b.List)+n-1)/n)
	for i := range b.List {
		if i%each == 0 {
			list = append(list, b.empty())
		}
		list[len(list)-1].add(&b.List[i])
	}
	return list, time.Duration(int64(each)*b.Width) * time.Microsecond
}
