package traffic

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// Shape says how the calls that are made follow one another.
type Shape string

const (
	// Steady calls are as far from one another as the rate says.
	Steady Shape = "steady"
	// Poisson calls come at random, independent of one another.
	Poisson Shape = "poisson"
	// OnOff calls are Poisson ones while traffic is on, at the rate; none come while it is off.
	OnOff Shape = "onoff"
)

// Shapes are the shapes that traffic may have.
var Shapes = []string{string(Steady), string(Poisson), string(OnOff)}

// Made says what traffic to make. The same Made makes the same calls.
type Made struct {
	Rate    float64 // calls in a second, over all ids
	Burst   int     // calls that come together each time; 1 for one after the other
	For     time.Duration
	Shape   Shape
	On, Off time.Duration // of OnOff
	IDs     int           // users, and as many addresses
	Zipf    float64       // the n-th id calls n^-Zipf times as often as the first; 0 for all equally often
	Seed    uint64
	Start   time.Time
}

// Check says what keeps traffic from being made.
func (m *Made) Check() error {
	switch {
	case !(m.Rate > 0) || m.Rate > 1e7:
		return fmt.Errorf("a rate of %v calls a second, want more than 0, at most 10000000", m.Rate)
	case m.Burst < 1 || m.Burst > 1e6:
		return fmt.Errorf("bursts of %d calls, want 1 to 1000000", m.Burst)
	case m.For < time.Microsecond:
		return fmt.Errorf("traffic for %v, want 1µs or more", m.For)
	case m.IDs < 1 || m.IDs > 1e7:
		return fmt.Errorf("%d ids, want 1 to 10000000", m.IDs)
	case !(m.Zipf >= 0) || m.Zipf > 10:
		return fmt.Errorf("a Zipf exponent of %v, want 0 to 10", m.Zipf)
	case m.Shape == OnOff && (m.On < time.Microsecond || m.Off < time.Microsecond):
		return fmt.Errorf("traffic that is on for %v and off for %v, want 1µs or more for each", m.On, m.Off)
	}
	return nil
}

// Make returns the traffic of m.
func Make(m Made) (Source, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	g := &generator{Made: m, random: rand.New(rand.NewPCG(m.Seed, 0)), start: m.Start.UnixMicro()}
	g.mean = float64(m.Burst) / m.Rate * 1e6
	if m.Shape != Steady {
		g.at = g.random.ExpFloat64() * g.mean
	}
	g.ids()
	return g, nil
}

// generator makes calls. Its times are µs, of time that traffic is on.
type generator struct {
	Made
	random  *rand.Rand
	start   int64
	mean    float64 // between bursts
	at      float64 // of the next burst
	bursts  float64 // that have been made
	left    int     // calls of this burst that are still to be made
	now     int64
	decided int64 // the time up to which calls have been
	users   numbered
	addrs   numbered
	shares  []float64 // of ids up to each, as a distribution; nil for equal ones
}

// ids sets the ids, and how often each of them calls.
func (g *generator) ids() {
	g.users = numbered{names: make([]*Name, g.IDs), text: func(i int) string { return "u" + strconv.Itoa(i+1) }}
	g.addrs = numbered{names: make([]*Name, g.IDs), text: func(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255) }}
	if g.Zipf == 0 {
		return
	}
	sum := 0.0
	for i := range g.IDs {
		sum += math.Pow(float64(i+1), -g.Zipf)
		g.shares = append(g.shares, sum)
	}
}

// Decided lets the names of calls up to a time be forgotten.
func (g *generator) Decided(at int64) { g.decided = at }

func (g *generator) Next(c *Call) error {
	if g.left == 0 {
		end := g.For.Microseconds()
		if !(g.at < float64(end)) {
			return io.EOF
		}
		if g.now = g.wall(int64(g.at), end); g.now >= end {
			return io.EOF
		}
		g.left = g.Burst
		g.advance()
	}
	g.left--
	id, at := g.pick(), g.start+g.now
	*c = Call{At: at, User: g.users.of(id, at, g.decided), Addr: g.addrs.of(id, at, g.decided), Cost: 1}
	return nil
}

// advance sets the time of the next burst. Steady ones are multiples of their distance: no error adds up.
func (g *generator) advance() {
	g.bursts++
	if g.Shape == Steady {
		g.at = g.bursts * g.mean
		return
	}
	g.at += g.random.ExpFloat64() * g.mean
}

// wall is the time since the start at which traffic has been on for so long, which is less than the end; the end if it is no earlier.
func (g *generator) wall(on, end int64) int64 {
	if g.Shape != OnOff {
		return on
	}
	times, off := on/g.On.Microseconds(), g.Off.Microseconds()
	if times > (end-on)/off {
		return end
	}
	return on + times*off
}

// pick draws an id.
func (g *generator) pick() int {
	if g.shares == nil {
		return g.random.IntN(g.IDs)
	}
	x := g.random.Float64() * g.shares[g.IDs-1]
	id, _ := slices.BinarySearch(g.shares, x)
	return min(id, g.IDs-1)
}
