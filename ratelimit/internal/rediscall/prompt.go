package rediscall

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Prompt is a client of one server, with its hooks, that gives up on a reply to a call sooner than the client itself does.
type Prompt struct {
	*redis.Client
	sooner *redis.Client // nil where the client gives up as soon by itself
}

// NewPrompt returns c as it gives up on a reply after d at the latest. Where its options say otherwise, it adds a hook to c, which
// is told of the calls through the Prompt after the hooks that were there before.
func NewPrompt(c *redis.Client, d time.Duration) *Prompt {
	p := &Prompt{Client: c}
	if own := c.Options().ReadTimeout; own <= 0 || own > d {
		p.sooner = c.WithTimeout(d) // which has the connections of c, but not its hooks
		c.AddHook(detour{p})
	}
	return p
}

// detour is a hook that makes calls through its Prompt go on by the client that gives up sooner.
type detour struct{ prompt *Prompt }

func (detour) DialHook(redis.DialHook) redis.DialHook { return nil }

func (detour) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook { return nil }

func (d detour) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(command); ok && c.call.Client == redis.UniversalClient(d.prompt) {
			return d.prompt.sooner.Process(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}
