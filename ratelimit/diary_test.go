package ratelimit_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// diary writes down what stores are asked.
type diary struct {
	mu    sync.Mutex
	pages []string
}

func (d *diary) write(page string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages = append(d.pages, page)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.pages)
}

func (d *diary) of(s stores) stores {
	return stores{writtenRates{s.rates, d}, &writtenLocks{s.locks, d}}
}

type writtenRates struct {
	store.Store
	*diary
}

func (w writtenRates) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	w.write("take")
	return w.Store.Take(ctx, requests, detail, out)
}

func (w writtenRates) GiveBack(ctx context.Context, r store.Receipt) error {
	w.write("give back")
	return w.Store.GiveBack(ctx, r)
}

type writtenLocks struct {
	lock.Store
	*diary
}

func what(c lock.Claim) string {
	if c.Limit > 0 {
		return "room"
	}
	return "lock"
}

func (w *writtenLocks) Acquire(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	w.write("acquire " + what(c))
	return w.Store.Acquire(ctx, c)
}

func (w *writtenLocks) Release(ctx context.Context, c lock.Claim) (bool, error) {
	w.write("release " + what(c))
	return w.Store.Release(ctx, c)
}

// all is a policy of all that there is, in the wrong order.
func all(charge rules.Charge) []rules.Limit {
	return []rules.Limit{
		{Kind: rules.Lock},
		inFlight(1),
		{Kind: rules.Global, Rules: per(1, time.Hour), Charge: charge},
	}
}
