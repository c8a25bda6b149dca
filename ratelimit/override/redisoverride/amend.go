package redisoverride

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/rules"
)

//go:embed amend.lua
var amendLua string

// ErrContended is of an [Amend] that has written nothing, since others have changed the overrides meanwhile each time that it was tried.
var ErrContended = errors.New("redisoverride: others change the overrides all the time, and nothing is written")

// ErrUnsure is of an [Amend] of which nobody knows whether it is written: the answer to it was lost.
var ErrUnsure = errors.New("redisoverride: nobody knows whether the overrides are written")

// maxTries is how often an amendment is tried: as many may write at once, for who fails has been overtaken by one who has not.
const maxTries = 100

// Amend changes overrides by what they are, as [Change] does with texts that are known: change is told of all of them, and says what some are to be, a text for each
// name, empty for none. It is asked again where others have written in between, so that nobody's change is lost, and nothing is written but what change has
// seen the whole of. An error of change ends it, and nothing is written. Told is -1 where there is nothing to write, too. A hash that is larger than [MaxSize] is told of
// whole, and texts may be removed from it; they are set where it is no larger than that then.
//
// It needs +eval besides. Where the answer is lost, the error is [ErrUnsure]; where others are always faster, [ErrContended].
func Amend(ctx context.Context, client redis.UniversalClient, change func(now []rules.Override) (map[string]string, error), opts ...Option) (told int64, err error) {
	h := of(client, opts)
	for range maxTries {
		fields, err := h.fields(ctx)
		if err != nil {
			return -1, fmt.Errorf("redisoverride: %w", err)
		}
		now := h.list(fields)
		texts, err := change(now)
		if err != nil || len(texts) == 0 {
			return -1, err
		}
		if done, err := h.amend(ctx, now, texts); err != nil {
			return -1, err
		} else if done {
			return h.tell(ctx, strings.Join(slices.Sorted(maps.Keys(texts)), " "))
		}
	}
	return -1, ErrContended
}

// amend writes texts unless the hash is another than was read.
func (h hash) amend(ctx context.Context, read []rules.Override, texts map[string]string) (done bool, err error) {
	set, remove, err := sorted(texts)
	if err != nil {
		return false, err
	}
	args, fields := []any{len(read)}, make(map[string]string)
	for i := range read {
		args, fields[read[i].Name] = append(args, read[i].Name, read[i].Text), read[i].Text
	}
	if len(set) > 0 {
		maps.Copy(fields, texts)
		if err := CheckSize(h.list(fields)); err != nil {
			return false, fmt.Errorf("redisoverride: what is to be the hash would be read by nobody: %w", err)
		}
	}
	args = append(args, len(set)/2)
	for _, word := range append(set, remove...) {
		args = append(args, word)
	}
	cmd := redis.NewCmd(ctx, append([]any{"eval", amendLua, 1, h.key}, args...)...)
	_ = h.client.Process(ctx, once{cmd})
	n, err := cmd.Int()
	if err != nil {
		return false, unsure(err)
	}
	return n == 1, nil
}

// once is a command that the client sends no second time, which would find what the first one has written.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// sorted are the names and texts to set, and the names to remove.
func sorted(texts map[string]string) (set, remove []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		switch text := texts[name]; {
		case text == "":
			remove = append(remove, name)
		case name == "":
			return nil, nil, errEmpty
		default:
			set = append(set, name, text)
		}
	}
	return set, remove, nil
}

// unsure is the error of a write: the server's where it has refused it, and else that nobody knows, unless no server was reached.
func unsure(err error) error {
	var refused redis.Error
	var network *net.OpError
	if errors.As(err, &refused) || errors.As(err, &network) && network.Op == "dial" {
		return fmt.Errorf("redisoverride: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrUnsure, err)
}
