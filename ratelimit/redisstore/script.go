package redisstore

import (
	"crypto/sha1" // names a script in Redis's cache; secures nothing
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed frame.lua
var frameLua string

//go:embed sliding_log.lua
var slidingLogLua string

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
	b.WriteString("local algorithms = {}\n")
	for _, algorithm := range []string{slidingLogLua} {
		b.WriteString("do\n" + algorithm + "end\n")
	}
	b.WriteString(frameLua)
	return b.String()
}
