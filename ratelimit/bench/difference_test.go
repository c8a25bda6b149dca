package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// difference is by how much one's times exceed another's, of pairs that were measured in one turn: what slows a turn slows both. Times that follow each other are
// alike, so blocks of pairs are what is drawn from, not pairs.
type difference struct{ median, mean interval }

// interval is an estimate, in ns, and between what it lies with 99 % confidence.
type interval struct{ value, low, high float64 }

const (
	blockOf = 50    // pairs
	draws   = 2_000 // by which an interval is found
)

// differ compares the times of one with those of another.
func differ(one, other []time.Duration) difference {
	var medians, means []float64 // of blocks
	for first := 0; first+blockOf <= len(one); first += blockOf {
		pairs := make([]float64, blockOf)
		sum := 0.0
		for i := range pairs {
			pairs[i] = float64(one[first+i] - other[first+i])
			sum += pairs[i]
		}
		slices.Sort(pairs)
		medians = append(medians, (pairs[blockOf/2-1]+pairs[blockOf/2])/2)
		means = append(means, sum/blockOf)
	}
	return difference{bootstrap(medians), bootstrap(means)}
}

// bootstrap is the mean of values, and between what it lies as draws of as many of them have it.
func bootstrap(values []float64) interval {
	if len(values) == 0 {
		return interval{math.NaN(), math.NaN(), math.NaN()}
	}
	drawn := make([]float64, draws)
	for i := range drawn {
		for range values {
			drawn[i] += values[rand.IntN(len(values))]
		}
		drawn[i] /= float64(len(values))
	}
	slices.Sort(drawn)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return interval{sum / float64(len(values)), drawn[draws/200], drawn[draws-1-draws/200]}
}

// verdict is what may be said of an interval of differences.
func (i interval) verdict() string {
	switch {
	case i.high < 0:
		return "less"
	case i.low > 0:
		return "more"
	}
	return "no difference that could be told"
}

func (i interval) String() string {
	return fmt.Sprintf("%+.2f µs (%+.2f to %+.2f): %s", i.value/1e3, i.low/1e3, i.high/1e3, i.verdict())
}

// differences reports by how much the first locker's times exceed those of each other, and says whether that could be chance.
func differences(b *testing.B, lockers []locker, times [][]time.Duration) {
	for i, l := range lockers[1:] {
		d := differ(times[0], times[i+1])
		pair := lockers[0].name + "-minus-" + l.name
		b.ReportMetric(d.median.value, pair+"-median-ns")
		b.ReportMetric(d.mean.value, pair+"-mean-ns")
		b.Logf("%s less %s, with 99 %% confidence: median %v; mean %v", lockers[0].name, l.name, d.median, d.mean)
	}
}

// TestDifferenceIsTold holds that a difference is told where there is one, by its sign, and not where there is none, however much both vary together.
func TestDifferenceIsTold(t *testing.T) {
	const pairs = 10_000
	base, faster, same, slower := make([]time.Duration, pairs), make([]time.Duration, pairs), make([]time.Duration, pairs), make([]time.Duration, pairs)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range base {
		turn := 60_000 + 20_000*math.Sin(float64(i)/500) // ns: the machine is slow now and then
		time := func(less float64) time.Duration { return time.Duration(turn - less + 5_000*r.ExpFloat64()) }
		base[i], faster[i], same[i], slower[i] = time(0), time(1_000), time(0), time(-1_000)
	}
	for _, test := range []struct {
		name  string
		other []time.Duration
		want  string
	}{{"faster", faster, "more"}, {"same", same, "no difference that could be told"}, {"slower", slower, "less"}} {
		t.Run(test.name, func(t *testing.T) {
			d := differ(base, test.other)
			if d.median.verdict() != test.want || d.mean.verdict() != test.want {
				t.Errorf("differ = median %v; mean %v; want %q", d.median, d.mean, test.want)
			}
		})
	}
}
