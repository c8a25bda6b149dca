package redisstore

import (
	"context"
	_ "embed"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

//go:embed fleet.lua
var fleetLua string

var fleetScript = rediscall.NewScript(fleetLua)

var _ store.Fleet = (*Store)(nil)

// Attend says that a member shares the counts under prefix, by the server's clock, and returns how many do. They are in one key,
// such as "rl:instances", which is gone a minute after the last of them. It returns once ctx is done, and is of no
// consequence for calls: where it fails, none of them is kept from the server.
func (s *Store) Attend(ctx context.Context, prefix, member string) (members int, err error) {
	nonce := rediscall.NewNonce()
	call := &rediscall.Call{
		Package: "redisstore", Client: s.client, Script: fleetScript, MayRepeat: true, Nonce: nonce,
		Words: []any{nil, nil, 1, prefix + ":instances", member, store.Attendance.Microseconds(), nonce},
	}
	type answer struct {
		reply []int64
		err   error
	}
	landed := make(chan answer, 1)
	go func() { // the client heeds no context while it reads
		reply, err := call.Run(ctx)
		landed <- answer{reply, err}
	}()
	select {
	case a := <-landed:
		if a.err == nil && (len(a.reply) != 1 || a.reply[0] < 1) {
			return 0, errReply
		}
		if a.err != nil {
			return 0, a.err
		}
		return int(a.reply[0]), nil
	case <-ctx.Done():
		return 0, expired(ctx, !call.Abandon())
	}
}
