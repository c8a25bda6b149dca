package redisstore

import (
	"crypto/sha1" // names a script in Redis's cache; secures nothing
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

//go:embed frame.lua
var frameLua string

//go:embed entries.lua
var entriesLua string

//go:embed sliding_log.lua
var slidingLogLua string

//go:embed bucket.lua
var bucketLua string

// algorithms are the files that the script is made of, each of which adds itself to the script's algorithms under
// its place here.
var algorithms = []struct {
	lua       string
	remembers bool // every admission by its base
}{
	{slidingLogLua, true},
	{bucketLua, false},
}

// indexes has the place of each algorithm's file.
var indexes = []int{
	rules.SlidingLog:  0,
	rules.TokenBucket: 1,
	rules.LeakyBucket: 1,
	rules.GCRA:        1,
}

// remembers says whether the request's admissions are told apart by their bases, so that giving one back again does
// nothing.
func remembers(req *store.Request) bool { return algorithms[indexes[req.Algorithm]].remembers }

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

// assemble puts the algorithms before the frame. Each stands in a block of its own, so that their local names do
// not meet.
func assemble() string {
	var b strings.Builder
	b.WriteString("local algorithms = {}\n" + entriesLua)
	for _, algorithm := range algorithms {
		b.WriteString("do\n" + algorithm.lua + "end\n")
	}
	b.WriteString(frameLua)
	return b.String()
}
