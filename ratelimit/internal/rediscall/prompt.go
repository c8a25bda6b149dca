package rediscall

import (
	"context"
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
)

// Prompt is a client of one server, with its hooks, that gives up on a reply to a call as soon as it is to, and when the call's context has its deadline,
// whatever the client's own options say.
type Prompt struct {
	*redis.Client
	sooner *redis.Client
	kept   kept
}

// promptKey is what a client's Prompt is known by.
type promptKey struct {
	client weak.Pointer[redis.Client]
	within time.Duration
}

// prompts are those of clients that are still used: a client cannot be rid of a hook again.
var prompts = struct {
	sync.Mutex
	known map[promptKey]weak.Pointer[Prompt]
}{known: map[promptKey]weak.Pointer[Prompt]{}}

// NewPrompt returns c as it gives up on a reply after d at the latest: the same Prompt for the same d. It adds a hook to c, which
// is told of the calls through the Prompt after the hooks that were there before.
func NewPrompt(c *redis.Client, d time.Duration) *Prompt {
	if own := c.Options().ReadTimeout; own > 0 {
		d = min(d, own)
	}
	key := promptKey{weak.Make(c), d}
	prompts.Lock()
	defer prompts.Unlock()
	if p := prompts.known[key].Value(); p != nil {
		return p
	}
	p := &Prompt{Client: c, sooner: c.WithTimeout(d)} // which has the connections of c, but not its hooks
	if spares(c.Options()) {
		p.kept.client = c.WithTimeout(d) // a client writes into its options as it connects, under a lock that its Conns do not have
	}
	c.AddHook(detour{p})
	prompts.known[key] = weak.Make(p)
	runtime.AddCleanup(c, forget, key)
	return p
}

func forget(key promptKey) {
	prompts.Lock()
	defer prompts.Unlock()
	delete(prompts.known, key)
}

// GiveBack gives a connection that was kept back to the pool. Calls that come one after the other have one connection, which they then need not
// look for, and look at, each. It leaves the pool for at most 100 ms then; and only a pool that does not miss it: one of eight
// connections or more, of a client that caches nothing itself. It may be broken, so calls through a Prompt are such as may be repeated.
func (p *Prompt) GiveBack() { p.kept.giveBack() }

// process sends cmd past the hooks.
func (p *Prompt) process(ctx context.Context, cmd redis.Cmder) error {
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left < p.sooner.Options().ReadTimeout {
			return p.sooner.WithTimeout(max(0, left)+time.Millisecond).Process(ctx, cmd) // 1 ms: so that ctx is done then
		}
	}
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
