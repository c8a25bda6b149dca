package main

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
)

// heat is how contestants are measured together: one caller calls each for a turn, and then each for another, in an order that is drawn anew for
// every lap. What slows the machine for a while is slow for all of them then, where it would be slow for the one whose round it is.
type heat struct {
	grain int // calls that are timed as one
	turn  int // grains of a turn
	laps  int // at least
}

// The replies of a server are timed call by call, and a turn lasts some ms. What is in the process takes no longer than the clock does, and a turn
// suffices to call for all ids several times: at its beginning the processor's memory has what others have left there. What a developer waits for takes
// longer than a round lasts.
var (
	ofReplies   = heat{grain: 1, turn: 50, laps: 1}
	ofProcesses = heat{grain: 500, turn: 200, laps: 1}
	ofCommands  = heat{grain: 1, turn: 1, laps: 3}
)

// starter is a contestant in a heat.
type starter struct {
	heat
	call   call
	random *rand.Rand
	times  []time.Duration // of grains
	allocs float64         // of all calls
}

// run lets all of calls run, as many times as fit into so long for each, and returns their samples.
func (h heat) run(calls []call, span time.Duration) ([]sample, error) {
	starters := make([]starter, len(calls))
	for i, call := range calls {
		starters[i] = starter{heat: h, call: call, random: rand.New(rand.NewPCG(rand.Uint64(), 1))}
	}
	runtime.GC()
	end := time.Now().Add(span * time.Duration(len(calls)))
	for lap := 0; lap < h.laps || time.Now().Before(end); lap++ {
		for _, i := range rand.Perm(len(starters)) {
			if err := starters[i].take(); err != nil {
				return nil, err
			}
		}
	}
	samples := make([]sample, len(starters))
	for i := range starters {
		samples[i] = starters[i].sample()
	}
	return samples, nil
}

// take is one turn.
func (s *starter) take() error {
	before := mallocs()
	for range s.turn {
		begin := time.Now()
		for range s.grain {
			if err := s.call(s.random.IntN(ids)); err != nil {
				return err
			}
		}
		s.times = append(s.times, time.Since(begin))
	}
	s.allocs += mallocs() - before
	return nil
}

// sample is what all turns have found out. The time of a call is the median of the grains'.
func (s *starter) sample() sample {
	slices.Sort(s.times)
	nanos := float64(s.times[len(s.times)/2]) / float64(s.grain)
	return sample{perSecond: 1e9 / nanos, nanos: nanos, allocs: s.allocs / float64(len(s.times)*s.grain)}
}
