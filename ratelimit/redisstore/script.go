package redisstore

import (
	"crypto/sha1" // names a script in Redis's cache; secures nothing
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

//go:embed frame.lua
var frameLua string

//go:embed decision.lua
var decisionLua string

//go:embed clock.lua
var clockLua string

//go:embed integer.lua
var integerLua string

//go:embed fraction.lua
var fractionLua string

//go:embed entries.lua
var entriesLua string

//go:embed sliding_log.lua
var slidingLogLua string

//go:embed bucket.lua
var bucketLua string

//go:embed fixed_window.lua
var fixedWindowLua string

//go:embed sliding_window.lua
var slidingWindowLua string

//go:embed compact.lua
var compactLua string

//go:embed compact_log.lua
var compactLogLua string

//go:embed compact_run.lua
var compactRunLua string

//go:embed interval_bucket.lua
var intervalBucketLua string

//go:embed queue.lua
var queueLua string

//go:embed door.lua
var doorLua string

// The places of the script's algorithms, which the headers of frame.lua and of each file say too.
const (
	atSlidingLog = iota
	atBucket
	atFixedWindow
	atSlidingWindow
	atCompactLog
	atIntervalBucket
	atQueue
	atDoor // of bans, behind the limit that has one
	atReturnedBucket
)

// algorithms are the files that the script is made of, each under its place, which returns the algorithm.
var algorithms = []struct {
	lua       string
	remembers bool                       // every admission, by its base
	dates     bool                       // what is given back is found by when it was charged
	notes     bool                       // of what it charges
	option    func(*store.Request) int64 // what the file takes for a limit's option; nil for none
}{
	atSlidingLog:     {lua: slidingLogLua, remembers: true},
	atBucket:         {lua: bucketLua, dates: true, option: burst},
	atFixedWindow:    {lua: fixedWindowLua, dates: true, option: func(req *store.Request) int64 { return int64(req.Start) }},
	atSlidingWindow:  {lua: slidingWindowLua, dates: true, option: segments},
	atCompactLog:     {lua: compactLogLua, dates: true},
	atIntervalBucket: {lua: intervalBucketLua, dates: true, option: burst},
	atQueue:          {lua: queueLua, dates: true, notes: true, option: mostDelay},
	atDoor:           {lua: doorLua},
	atReturnedBucket: {lua: bucketLua, dates: true, notes: true, option: burst},
}

func burst(req *store.Request) int64 { return req.Burst }

// mostDelay is what a queue takes for its option: µs that it may delay a call.
func mostDelay(req *store.Request) int64 { return req.Wait.Microseconds() }

// place returns where the request's algorithm stands in the script, -1 if it does not.
func place(req *store.Request) int {
	switch req.Algorithm {
	case rules.SlidingLog:
		return atSlidingLog
	case rules.SlidingWindow:
		return atSlidingWindow
	case rules.FixedWindow:
		return atFixedWindow
	case rules.CompactLog:
		return atCompactLog
	case rules.TokenBucket:
		if req.Refill == rules.RefillInterval {
			return atIntervalBucket
		}
		return bucketPlace(req)
	case rules.LeakyBucket:
		if req.Queue {
			return atQueue
		}
		return bucketPlace(req)
	case rules.GCRA:
		return bucketPlace(req)
	}
	return -1
}

func bucketPlace(req *store.Request) int {
	if req.Returns {
		return atReturnedBucket
	}
	return atBucket
}

// option returns the number that the request's algorithm takes besides its rules, 0 if it takes none.
func option(req *store.Request) int64 {
	if of := algorithms[place(req)].option; of != nil {
		return of(req)
	}
	return 0
}

func segments(req *store.Request) int64 {
	n, _ := rules.Subwindows(time.Microsecond, req.Segments)
	return n
}

// remembers says whether the request's admissions are told apart by their bases, so that giving one back again does
// nothing.
func remembers(req *store.Request) bool { return algorithms[place(req)].remembers }

// noted says whether the script notes how it has charged the request, which it is told again to give that back.
func noted(req *store.Request) bool { return algorithms[place(req)].notes }

// dates reports whether the script needs the time of the charge to give it back.
func dates(req *store.Request) bool { return algorithms[place(req)].dates }

// script is a Lua script, and the first words of the commands that run it: the one by the name under which Redis
// caches it, the other with its text.
type script struct {
	text          string
	evalsha, eval [2]any
}

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	return script{
		text:    text,
		evalsha: [2]any{"evalsha", hex.EncodeToString(sum[:])},
		eval:    [2]any{"eval", text},
	}
}

// placesOf are the places of a file.
func placesOf(lua string) (places []int) {
	for at := range algorithms {
		if algorithms[at].lua == lua {
			places = append(places, at)
		}
	}
	return places
}

// condition is that place is one of places.
func condition(places []int) string {
	var any []string
	for _, at := range places {
		any = append(any, fmt.Sprintf("place == '%d'", at))
	}
	return strings.Join(any, " or ")
}

// assemble puts what the frame needs before it, in functions that make what decides once a decision needs it: making all there is
// would cost more than deciding.
func assemble() string {
	var b strings.Builder
	b.WriteString(clockLua + integerLua + compactLua)
	b.WriteString("local function make(place)\n" + fractionLua + "local function entries(letter, steps)\n" + entriesLua + "end\n")
	for at := range algorithms {
		if same := placesOf(algorithms[at].lua); same[0] == at {
			fmt.Fprintf(&b, "if %s then\n%send\n", condition(same), algorithms[at].lua)
		}
	}
	b.WriteString("end\nlocal function make_decision(decision, reply)\n" + decisionLua + "end\n" + compactRunLua + frameLua)
	return b.String()
}
