package dashboard

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
)

//go:embed ledger.lua
var ledgerLua string

var ledgerScript = rediscall.NewScript(ledgerLua)

// keys are what a service's instances share.
type keys struct{ prefix string }

func keysOf(service string) keys { return keys{"rl:{dashboard:" + service + "}:"} }

func (k keys) instances() string          { return k.prefix + "instances" }
func (k keys) bans() string               { return k.prefix + "bans" }
func (k keys) changes() string            { return k.prefix + "changes" }
func (k keys) salt() string               { return k.prefix + "salt" }
func (k keys) second(second int64) string { return k.prefix + "s" + strconv.FormatInt(second, 10) }
func (k keys) minute(minute int64) string { return k.prefix + "m" + strconv.FormatInt(minute, 10) }

const (
	// attendance is how long an instance counts that is not heard of, and attendEvery how often it is heard of.
	attendance  = 30 * time.Second
	attendEvery = 10 * time.Second
	// kept is how long counts stay.
	kept = (span + 60) * time.Second
	// saltKept is how long the secret of the ids stays once nobody is there.
	saltKept = 24 * time.Hour
)

// entries are what one run of the ledger's script writes.
type entries struct {
	keys  keys
	names []string // KEYS
	args  []any
}

func newEntries(k keys) *entries {
	return &entries{keys: k, names: []string{k.instances(), k.bans()}, args: []any{attendance.Milliseconds()}}
}

func (e *entries) empty() bool { return len(e.args) == 1 }

// put adds an entry.
func (e *entries) put(key, what, name string, n int64) {
	at := slices.Index(e.names, key)
	if at < 0 {
		at = len(e.names)
		e.names = append(e.names, key)
	}
	e.args = append(e.args, at+1, what, name, n)
}

// keep makes the keys that are counted in stay for as long as they are of use.
func (e *entries) keep() {
	for _, key := range e.names[2:] {
		stays := kept
		switch key {
		case e.keys.salt():
			stays = saltKept
		case e.keys.changes():
			stays = changesKept
		}
		e.put(key, "keep", "", stays.Milliseconds())
	}
}

var errReply = errors.New("dashboard: the server answered something else than its time")

// write runs the script, and returns the server's time. It is executed once at most.
func (e *entries) write(ctx context.Context, client redis.UniversalClient) (time.Time, error) {
	words := []any{nil, nil, len(e.names)}
	for _, name := range e.names {
		words = append(words, name)
	}
	nonce := rediscall.NewNonce()
	words = append(append(words, e.args...), nonce)
	call := &rediscall.Call{Package: "dashboard", Client: client, Script: ledgerScript, Nonce: nonce, Words: words}
	reply, err := call.Run(ctx)
	switch {
	case err != nil:
		return time.Time{}, err
	case len(reply) != 2:
		return time.Time{}, errReply
	}
	return time.Unix(reply[0], reply[1]*int64(time.Microsecond)), nil
}
