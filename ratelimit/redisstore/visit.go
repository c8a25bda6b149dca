package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// doer is a client of one server, or of whatever the program has made.
type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// visit is the part of a check that is about one server.
type visit struct {
	*check
	server string // its name, where the client knows of several
}

func (v visit) find(level slog.Level, format string, args ...any) {
	v.findAt(v.server, level, format, args...)
}

func (v visit) fail(err error) bool { return v.failAt(v.server, err) }

func (v visit) refuse(what, mend string) {
	v.fail(meaning{class: store.Misconfigured, mend: mend}.fail(errors.New(what)))
}

// ask asks the server what it is, and what it permits.
func (v visit) ask(ctx context.Context, node doer) error {
	v.begin(v.server)
	defer v.end(v.server)
	if err := v.hello(ctx, node); err != nil {
		return err
	}
	args := []any{"eval", checkLua, 0}
	for _, key := range v.keys {
		args = append(args, key)
	}
	before := time.Now()
	reply, err := node.Do(ctx, args...).StringSlice()
	if err != nil {
		return err
	}
	if len(reply) < 3 {
		v.fail(errReply)
		return nil
	}
	v.clock(reply[0], reply[1], before, time.Now())
	v.memory(reply[2])
	v.permissions(reply[3:])
	return nil
}

// hello asks the server what it is. One that does not know HELLO is not asked.
func (v visit) hello(ctx context.Context, node doer) error {
	reply, err := node.Do(ctx, "hello").Result()
	if err != nil {
		if strings.HasPrefix(err.Error(), "ERR ") || redis.HasErrorPrefix(err, "NOPERM") {
			return nil
		}
		return err
	}
	is := fields(reply)
	switch mode := is["mode"]; {
	case mode == "sentinel":
		v.refuse("the server is a Sentinel", "make the client with redis.NewFailoverClient, or give it the master's address")
	case mode == "cluster" && v.isPlain():
		v.refuse("the server is a node of a Redis Cluster", "make the client with redis.NewClusterClient")
	case mode == "standalone" && v.finds():
		v.refuse("the server is no Redis Cluster", "make the client with redis.NewClient")
	}
	if is["role"] == "replica" || is["role"] == "slave" {
		v.find(slog.LevelWarn, "the server is a replica, which decides nothing: "+
			"unless it is promoted soon, give the client the master's address, or make it with redis.NewFailoverClient")
	}
	if older(is["version"], 6, 2) && is["server"] == "redis" {
		v.find(slog.LevelWarn, "the server is Redis %s, want 6.2 or later: upgrade it", is["version"])
	}
	return nil
}

// isPlain says whether the client knows of one server alone.
func (v visit) isPlain() bool {
	_, plain := v.store.client.(ofOneServer)
	return plain
}

// finds says whether the client asks the servers which of them has which slot. One that is told by the program, or by Sentinels
// (redis.NewFailoverClusterClient), spreads the slots over servers that are no Cluster.
func (v visit) finds() bool {
	cluster, ok := v.store.client.(*redis.ClusterClient)
	return ok && cluster.Options().ClusterSlots == nil
}

// fields are those of a HELLO's reply, which are texts.
func fields(reply any) map[string]string {
	is := make(map[string]string)
	set := func(name, value any) {
		n, _ := name.(string)
		if v, ok := value.(string); ok {
			is[n] = v
		}
	}
	switch reply := reply.(type) {
	case map[any]any:
		for name, value := range reply {
			set(name, value)
		}
	case []any:
		for i := 0; i+1 < len(reply); i += 2 {
			set(reply[i], reply[i+1])
		}
	}
	return is
}

// older says whether a version is one before major.minor. What is no version is not.
func older(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, err := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err == nil && err2 == nil && (a < major || a == major && b < minor)
}

// mostSkew is how far a server's clock may be from this program's unnoticed.
const mostSkew = 10 * time.Second

// clock compares a server's clock with this program's, which decides nothing: one of them is wrong where they differ.
func (v visit) clock(seconds, micros string, before, after time.Time) {
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	if err != nil || err2 != nil || s == 0 {
		return
	}
	now := time.Unix(s, us*1000)
	if now.Before(before.Add(-mostSkew)) || now.After(after.Add(mostSkew)) {
		v.find(slog.LevelWarn, "the server's clock, which decides, is %v from this program's: "+
			"windows that begin by the clock begin at another time than callers expect, and a failover to a server that has the right time moves them: "+
			"synchronise the clocks", now.Sub(before).Round(time.Second))
	}
}

// memory looks at what INFO says of the server's.
func (v visit) memory(info string) {
	is := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			is[name] = value
		}
	}
	policy, known := is["maxmemory_policy"]
	switch {
	case !known:
		v.find(slog.LevelInfo, "whether the server evicts keys cannot be found out without the permission +info: "+
			"see that its maxmemory-policy is noeviction, for an evicted key is a fresh quota")
	case policy != "noeviction" && is["maxmemory"] != "0":
		v.find(slog.LevelWarn, "the server's maxmemory-policy is %s, and an evicted key is a fresh quota: "+
			"set it to noeviction, or use a server for the limiter alone", policy)
	}
}

// permissions refuses a user who lacks some: names of commands, followed by a key where they lack it there.
func (v visit) permissions(lacks []string) {
	if len(lacks) == 0 {
		return
	}
	var commands []string
	where := make(map[string][]string) // commands by the key on which they are not permitted
	for _, lack := range lacks {
		command, key, _ := strings.Cut(lack, " ")
		where[key] = append(where[key], command)
		if word := "+" + command; !slices.Contains(commands, word) {
			commands = append(commands, word)
		}
	}
	for key, names := range where {
		prefix, _, _ := strings.Cut(key, ":")
		if len(names) == keyCommands {
			v.refuse(fmt.Sprintf("the Redis user has no permission for keys of the prefix %q", prefix),
				fmt.Sprintf("ACL SETUSER … ~%s:*", prefix))
			return
		}
	}
	v.refuse("the Redis user has no permission for "+strings.Join(commands, " "), "ACL SETUSER … "+strings.Join(commands, " "))
}

// keyCommands is how many commands check.lua asks about for each key.
const keyCommands = 15
