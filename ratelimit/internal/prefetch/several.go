package prefetch

import (
	"context"
	"errors"
	"slices"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// several is what a call of several requests is charged to: permits that were taken ahead, and the next store.
type several struct {
	store *Store
	keys  []string // of the requests
	held  []held   // of each request; none of those that the store was asked
	rest  store.Receipt
}

// takeSeveral takes what there is at hand, and asks the next store for the rest.
func (s *Store) takeSeveral(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	charged := &several{store: s, held: make([]held, len(requests))}
	var rest []store.Request
	for i := range requests {
		if charged.held[i] = s.hold(&requests[i]); charged.held[i].batch == nil {
			rest = append(rest, requests[i])
		}
	}
	if len(rest) == len(requests) {
		return s.ask(ctx, requests, detail, out)
	}
	inner := store.Outcome{Allowed: true}
	if len(rest) > 0 {
		if err := s.Store.Take(ctx, rest, detail, &inner); err != nil {
			charged.undo(ctx, requests)
			return err
		}
	}
	if !inner.Allowed {
		charged.undo(ctx, requests)
	}
	charged.rest = inner.Receipt
	charged.answer(requests, inner, detail, out)
	return nil
}

// answer writes what the next store has said of its requests, and what is known of the others.
func (c *several) answer(requests []store.Request, inner store.Outcome, detail bool, out *store.Outcome) {
	*out = store.Outcome{Allowed: inner.Allowed, Cached: inner.Cached, Rules: out.Rules[:0]}
	for i := range requests {
		if b := c.held[i].batch; b != nil {
			out.Ahead |= 1 << i
			out.Rules = b.describe(out.Rules, detail)
			continue
		}
		n := min(len(requests[i].Rules), len(inner.Rules))
		out.Rules = append(out.Rules, inner.Rules[:n]...)
		inner.Rules = inner.Rules[n:]
	}
	if !out.Allowed {
		return
	}
	for i := range requests {
		c.keys = append(c.keys, requests[i].Key)
	}
	out.Receipt = store.Receipt{Requests: requests, From: c}
}

// undo leaves the permits that were taken ahead to other calls.
func (c *several) undo(ctx context.Context, requests []store.Request) {
	for i, h := range c.held {
		if h.batch != nil {
			_ = h.batch.undo(ctx, requests[i].Cost)
		}
	}
}

// of is what the request of a key has of a batch.
func (c *several) of(key string) held { return c.held[slices.Index(c.keys, key)] }

// GiveBack gives back what the receipt's requests were charged, each once.
func (c *several) GiveBack(ctx context.Context, receipt store.Receipt) error {
	var errs []error
	for i := range receipt.Requests {
		req := &receipt.Requests[i]
		if h := c.of(req.Key); h.batch != nil {
			errs = append(errs, h.batch.giveBack(ctx, h.serial, req.Cost))
		}
	}
	rest := c.rest.Part(func(i int) bool {
		return slices.ContainsFunc(receipt.Requests, func(req store.Request) bool { return req.Key == c.rest.Requests[i].Key })
	})
	if len(rest.Requests) > 0 {
		errs = append(errs, c.store.Store.GiveBack(ctx, rest))
	}
	return errors.Join(errs...)
}
