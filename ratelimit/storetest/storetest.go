// Package storetest has the tests that every [store.Store] passes.
//
// A store's own test calls [Run]:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Subject {
//			clock := storetest.NewClock()
//			return storetest.Subject{Store: mystore.New(mystore.WithClock(clock.Now)), Clock: clock}
//		})
//	}
//
// A store of one more algorithm than the package knows is tested by its traces, a model and [Run].
package storetest

import (
	"flag"
	"slices"
	"sync"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/testdata/suite"
)

// Subject is a store under test. It may hold the counts of others, but none of keys that begin with its Prefix.
type Subject struct {
	Store store.Store

	// Clock is what the store decides by, if a test can hold it. Without one, the tests that need to know the time
	// are skipped: replay them on another store of the same making.
	Clock *Clock

	// Prefix begins every key that the tests use. Give one where the store outlives the test.
	Prefix string

	// Cases is the most random cases of each test, or 0 for as many as the flag -rapid.checks says.
	Cases int
}

// Run tests the stores that open gives, one for each test: with its clock held, all of what a store promises;
// without, what can be seen at any time.
//
// What is drawn at random is the same for every store and in every run, so that stores are compared on the same calls
// and a test does not fail today that passed yesterday. The flag -rapid.seed draws anew.
func Run(t *testing.T, open func(t *testing.T) Subject) { run(t, open, false) }

// RunSample is [Run] in the long suite. In the quick suite it leaves most of the tests that hold the clock out. It is
// for another configuration of a store that Run tests.
func RunSample(t *testing.T, open func(t *testing.T) Subject) { run(t, open, !suite.Long()) }

// sampled are the tests with a held clock that [RunSample] always runs.
var sampled = []string{
	"Traces", "CompactTraces", "Model", "Bisimulation", "Queue", "RetryAfterIsTight", "GiveBackAmongOthers",
	"ResetIsAsIfNeverCalled", "BanWithinWindow", "AheadIsKept",
}

func run(t *testing.T, open func(t *testing.T) Subject, sample bool) {
	fixSeed()
	tests := []struct {
		name string
		held bool // needs a clock
		run  func(t *testing.T, s Subject)
	}{
		{"Traces", true, testTraces},
		{"Model", true, testModel},
		{"Buckets", true, testBuckets},
		{"Windows", true, testWindows},
		{"NeverMore", true, testNeverMore},
		{"WindowsUnderConcurrency", false, testWindowsUnderConcurrency},
		{"InvalidWindows", false, testInvalidWindows},
		{"Bisimulation", true, testBisimulation},
		{"BucketsUnderConcurrency", false, testBucketsUnderConcurrency},
		{"Intervals", true, testIntervals},
		{"CompactTraces", true, testCompactTraces},
		{"CompactLog", true, testCompactLog},
		{"CompactUnderConcurrency", false, testCompactUnderConcurrency},
		{"Queue", true, testQueue},
		{"QueueSpacing", true, testQueueSpacing},
		{"QueuePeek", true, queueScenes(lawQueuePeek)},
		{"QueueReset", true, queueScenes(lawReset)},
		{"QueueClockSetBack", true, queueScenes(lawBackward)},
		{"QueueUnderConcurrency", false, testQueueUnderConcurrency},
		{"RetryAfterIsTight", true, pasts(lawRetryAfter)},
		{"RemainingIsTight", true, pasts(lawRemaining)},
		{"ResetAfterIsTight", true, pasts(lawResetAfter)},
		{"CostIsAdditive", true, scenes(lawAdditive)},
		{"UnchargedIsInvisible", true, scenes(lawUncharged)},
		{"GiveBackIsAsIfNeverMade", true, scenes(lawGiveBack)},
		{"GiveBackAmongOthers", true, scenes(lawReturned)},
		{"GiveBackKeepsTheRate", true, scenes(lawKept)},
		{"GiveBackLeavesRoom", true, scenes(lawInFlight)},
		{"OnlySuccesses", true, testOnlySuccesses},
		{"GiveBackAcrossCounts", true, testGiveBackAcrossCounts},
		{"ResetIsAsIfNeverCalled", true, pasts(lawReset)},
		{"ResetAndGiveBack", true, pasts(lawResetGiveBack)},
		{"ResetUnderConcurrency", false, testResetUnderConcurrency},
		{"ResetOfSeveral", false, testResetOfSeveral},
		{"ResetRefuses", false, testResetRefuses},
		{"GrantGivesRoom", true, pasts(lawGrant)},
		{"GrantIsToGiveBackTheLast", true, scenes(lawGrantLast)},
		{"GrantUnderConcurrency", false, testGrantUnderConcurrency},
		{"GrantOfWhatIsBack", true, testGrantOfWhatIsBack},
		{"GrantOfSeveral", false, testGrantOfSeveral},
		{"GrantRefuses", false, testGrantRefuses},
		{"PeekSaysWhatTakeWould", true, scenes(lawPeek)},
		{"PeekAtBans", false, testPeekAtBans},
		{"Ban", true, scenes(lawBan)},
		{"BanUnderConcurrency", false, testBanUnderConcurrency},
		{"BanAmongOthers", false, testBanAmongOthers},
		{"BanWithinWindow", true, testBanWithinWindow},
		{"BanLifted", true, testBanLifted},
		{"BanAfterFewer", false, testBanAfterFewer},
		{"BanAfterGiveBack", true, testBanAfterGiveBack},
		{"BanAtAnyCost", true, testBanAtAnyCost},
		{"BanRefuses", false, testBanRefuses},
		{"SameByAnotherName", true, scenes(lawSame)},
		{"RateIsKept", true, scenes(lawRate)},
		{"RateIsReached", true, testRateIsReached},
		{"RateDoesNotDrift", true, testDrift},
		{"AheadIsKept", true, aheadScenes(lawAhead)},
		{"AheadIsAsked", true, aheadScenes(lawAheadIsAsked)},
		{"AheadRetryAfterIsTight", true, aheadScenes(lawAheadRetry)},
		{"AheadGivenBack", true, aheadScenes(lawAheadGivenBack)},
		{"AheadClockSetBack", true, aheadScenes(lawAheadBackward)},
		{"AheadOfBuckets", true, testAheadOfBuckets},
		{"AheadOfSubwindows", true, testAheadOfSubwindows},
		{"InvalidAhead", false, testInvalidAhead},
		{"ClockSetBack", true, pasts(lawBackward)},
		{"ClockSetBackRate", true, scenes(lawSetBackRate)},
		{"Numbers", true, testNumbers},
		{"ChangedLimits", true, testChangedLimits},
		{"SameMicrosecond", true, testSameMicrosecond},
		{"ExactUnderConcurrency", false, testConcurrency},
		{"SeveralLimitsUnderConcurrency", false, testConcurrentLimits},
		{"DeniedIsInvisible", false, testDenied},
		{"AllOrNothing", false, testAllOrNothing},
		{"GiveBackIsIdempotent", false, testGiveBack},
		{"ZeroReceipt", false, testZeroReceipt},
		{"PeekChargesNothing", false, testPeek},
		{"NeverPasses", false, testNever},
		{"NoRequests", false, testNoRequests},
		{"ContextDone", false, testContext},
		{"InvalidRequests", false, testInvalid},
	}
	for _, test := range tests {
		if sample && test.held && !slices.Contains(sampled, test.name) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			if test.held && s.Clock == nil {
				t.Skip("the store's clock cannot be held")
			}
			test.run(t, s)
		})
	}
}

// fixSeed makes the drawn calls those of one seed, unless the flag has named another. It writes the flag once, for tests
// in parallel read it.
var fixSeed = sync.OnceFunc(func() {
	seed := flag.Lookup("rapid.seed")
	if seed.Value.String() != "0" {
		return
	}
	if err := seed.Value.Set("1"); err != nil {
		panic(err)
	}
})

// repeats returns how often a test without random cases repeats its calls.
func repeats(quick, long int) int {
	if suite.Long() {
		return long
	}
	return quick
}
