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
	kept   kept
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

// Keep lets calls that come one after the other have one connection, which they then need not look for, and look at, each. It leaves the pool for
// at most 100 ms then. That is only for calls that may be repeated, for it may be broken, and for a pool that does not miss it: one of eight
// connections or more, of a client that NewPrompt adds a hook to and that caches nothing itself.
func (p *Prompt) Keep() {
	if p.sooner != nil && spares(p.Options()) {
		p.kept.client = p.WithTimeout(p.sooner.Options().ReadTimeout) // a client writes into its options as it connects, under a lock that its Conns do not have
	}
}

// GiveBack gives the connection back to the pool that Keep has kept.
func (p *Prompt) GiveBack() { p.kept.giveBack() }

// process sends cmd past the hooks.
func (p *Prompt) process(ctx context.Context, cmd redis.Cmder) error {
	if p.kept.client == nil || !p.kept.mu.TryLock() {
		return p.sooner.Process(ctx, cmd)
	}
	defer p.kept.mu.Unlock()
	return p.kept.process(ctx, cmd)
}

// detour is a hook that makes calls through its Prompt go on by the client that gives up sooner.
type detour struct{ prompt *Prompt }

func (detour) DialHook(redis.DialHook) redis.DialHook { return nil }

func (detour) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook { return nil }

func (d detour) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(command); ok && c.call.Client == redis.UniversalClient(d.prompt) {
			return d.prompt.process(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}
