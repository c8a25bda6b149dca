package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// A variant is an algorithm with options. The laws hold for each of them.
type variant struct {
	options string // as a directive has them
	burst   bool   // the depth differs from the count

	// admits is the most cost that a rule lets through from one instant to another that is span µs later, both
	// included. It is reached.
	admits func(l *rules.Limit, r rules.Rule, span int64) int64

	// forgets says that what is given back some time after it was charged may be less than what was charged.
	forgets bool
	// returns says that of calls which overlap, each gets back what is then still missing of it.
	returns bool
	// begins says that windows begin with a call, or bursts are gained in steps counted from one.
	begins bool
	// late is the part of a window, 1 in so many, after which permits come back at the latest once their window has passed; 0 for none.
	late time.Duration
	// sameAs are the options of a variant that answers every call alike, if there is one.
	sameAs string
}

// variants has a line for each. What a line says of them is all that the laws know.
//
// A leaky bucket with a wait is none of them, and has tests of its own: one call of a cost waits for what is before it, and as
// many of cost 1 for each other, so that costs do not add up; what it has not let go on yet is no less than all that remains;
// and a permit given back leaves a gap where others wait behind it.
var variants = []variant{
	{options: "algo=sliding-log", admits: inWindows},
	{options: "algo=compact-log", admits: inWindows, sameAs: "algo=sliding-log"},
	{options: "algo=sliding-window", admits: inWindows, late: 10},
	{options: "algo=sliding-window segments=3", admits: inWindows, late: 3},
	{options: "algo=fixed-window", admits: acrossWindows},
	{options: "algo=fixed-window start=first", admits: acrossWindows, begins: true},
	{options: "algo=token-bucket", burst: true, admits: byRate, forgets: true},
	{options: "algo=token-bucket refill=interval", burst: true, admits: byStep, forgets: true, begins: true},
	{options: "algo=leaky-bucket", burst: true, admits: byRate, forgets: true, sameAs: "algo=token-bucket"},
	{options: "algo=gcra", burst: true, admits: byRate, forgets: true, sameAs: "algo=token-bucket"},
	{options: "algo=gcra charge=error", burst: true, admits: byRate, forgets: true, returns: true},
}

// inWindows: the count in any window.
func inWindows(_ *rules.Limit, r rules.Rule, span int64) int64 {
	return r.Count * (span/r.Window.Microseconds() + 1)
}

// acrossWindows: the count in each of the windows that meet the interval.
func acrossWindows(_ *rules.Limit, r rules.Rule, span int64) int64 {
	window := r.Window.Microseconds()
	return r.Count * ((span+window-1)/window + 1)
}

// byRate: what the bucket holds, and what it gains.
func byRate(l *rules.Limit, r rules.Rule, span int64) int64 {
	return l.Capacity(r) + span*r.Count/r.Window.Microseconds()
}

// byStep: what the bucket holds, and what it gains at the end of each window that has begun, which is no more than it
// holds.
func byStep(l *rules.Limit, r rules.Rule, span int64) int64 {
	window := r.Window.Microseconds()
	return l.Capacity(r) + min(r.Count, l.Capacity(r))*((span+window-1)/window)
}

// limit is a limit of the variant with these rules, or an error where the rule language refuses it.
func (v variant) limit(rs ...rules.Rule) (rules.Limit, error) {
	var l rules.Limit
	for _, r := range rs { // one by one: together, some would never bind
		d, err := rules.Parse(fmt.Sprintf("//ratelimit:global %d,%v %s", r.Count, r.Window, v.options))
		if err != nil {
			return l, err
		}
		d.Limit.Rules = append(l.Rules, d.Limit.Rules...)
		l = d.Limit
	}
	return l, nil
}

// fataler is what ends a test: of package testing or of rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// must is limit of rules that the rule language takes.
func (v variant) must(t fataler, rs ...rules.Rule) rules.Limit {
	t.Helper()
	l, err := v.limit(rs...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// request asks for cost from rules of the variant.
func (v variant) request(t fataler, s Subject, name string, cost int64, rs ...rules.Rule) store.Request {
	t.Helper()
	l := v.must(t, rs...)
	return store.NewRequest(&l, s.Prefix+name+v.options, cost)
}

// drawnWindows are short, for their boundaries to be met, and have as many parts as options ask for.
var drawnWindows = []time.Duration{60 * time.Millisecond, time.Second, 2 * time.Second, 7 * time.Second}

// draw draws a limit of one or two rules, none of which need be the stricter.
func (v variant) draw(rt *rapid.T) rules.Limit {
	var rs []rules.Rule
	for _, window := range rapid.SliceOfNDistinct(rapid.SampledFrom(drawnWindows), 1, 2, rapid.ID).Draw(rt, "windows") {
		rs = append(rs, rules.Rule{Count: rapid.SampledFrom([]int64{1, 2, 3, 5, 7}).Draw(rt, "count"), Window: window})
	}
	l := v.must(rt, rs...)
	if v.burst {
		l.Burst = rapid.Int64Range(0, 6).Draw(rt, "burst")
	}
	return l
}

// forEach runs law for every variant.
func forEach(law func(t *testing.T, s Subject, v variant)) func(t *testing.T, s Subject) {
	return func(t *testing.T, s Subject) {
		for _, v := range variants {
			t.Run(v.options, func(t *testing.T) { law(t, s, v) })
		}
	}
}

// variantOf returns the variant of these options.
func variantOf(options string) variant {
	return variants[slices.IndexFunc(variants, func(v variant) bool { return v.options == options })]
}

// Requests returns, by its options, a call of cost 1 for every algorithm and its variants, from a rule of count in
// window, each under a key of its own that begins with prefix.
func Requests(t testing.TB, prefix string, count int64, window time.Duration) map[string]store.Request {
	t.Helper()
	requests := make(map[string]store.Request)
	for _, v := range variants {
		requests[v.options] = v.request(t, Subject{Prefix: prefix}, "", 1, rules.Rule{Count: count, Window: window})
	}
	return requests
}
