package prefetch

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// patience is how long a batch is waited for, by nobody.
const patience = time.Second

// pool is the permits of one limit under one key.
type pool struct {
	store *Store
	hash  uint64
	limit store.Request
	epoch atomic.Uint64 // is another one once the store has forgotten what was charged

	first, second atomic.Pointer[batch] // of which calls take, in this order

	mu      sync.Mutex
	fetches bool // a batch is on its way
	retired bool // another pool has its place
	pace    pace
}

// held is a call's part of a batch; the zero held is none.
type held struct {
	batch  *batch
	serial uint32
}

// hold takes a request's cost of what is at hand. Where there is none, and where little is left, it sees to it that there will be.
func (s *Store) hold(req *store.Request) held {
	if req.Cost <= 0 || req.Prefetch <= 0 {
		return held{}
	}
	now := time.Now()
	p := s.pool(req, now)
	if p == nil {
		return held{}
	}
	h, due := p.take(now, req.Cost)
	if h.batch == nil || due {
		p.fill(now, req.Cost, h.batch == nil)
	}
	return h
}

func (p *pool) take(now time.Time, cost int64) (h held, due bool) {
	for _, of := range [...]*atomic.Pointer[batch]{&p.first, &p.second} {
		b := of.Load()
		if b == nil || !b.good(now) {
			continue
		}
		if serial, due, ok := b.take(cost); ok {
			return held{b, serial}, due
		}
	}
	return held{}, false
}

// fill takes a batch beside the calls, where that is worth it. missed says that a call's cost was not at hand.
func (p *pool) fill(now time.Time, cost int64, missed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if missed {
		p.pace.missed += cost
	}
	if p.fetches || p.retired || p.stocked(now) {
		return
	}
	n, ahead := p.pace.plan(now, p.used())
	if n < 2 || n <= cost {
		return
	}
	req := p.limit
	req.Cost, req.Ahead, req.Returns = n, ahead, true
	p.fetches = p.store.begin(func() { p.fetch(req) })
}

// batches are those of which calls take; nil where there is none.
func (p *pool) batches() [2]*batch { return [...]*batch{p.first.Load(), p.second.Load()} }

// stocked says whether there is more at hand than what makes a batch due.
func (p *pool) stocked(now time.Time) bool {
	for _, b := range p.batches() {
		if b.usable(now) && b.left() >= b.low {
			return true
		}
	}
	return false
}

// used is how many permits calls have ever asked for.
func (p *pool) used() int64 {
	n := p.pace.missed + p.pace.gone
	for _, b := range p.batches() {
		if b != nil {
			n += b.used()
		}
	}
	return n
}

// fetch takes a batch. Its permits are of use for a little less than they are charged for, for clocks do not go at the same rate.
func (p *pool) fetch(req store.Request) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	epoch, sent := p.epoch.Load(), time.Now()
	out, err := store.Take(ctx, p.store.Store, []store.Request{req}, true)
	var b *batch
	if err == nil && out.Allowed {
		b = newBatch(p, epoch, &req, out)
		b.taken, b.until = sent, sent.Add(req.Ahead-req.Ahead/128)
	}
	for _, old := range p.land(b, out.Rules, sent, time.Now()) {
		old.settle(context.Background())
	}
}

// land makes b one that calls take of, and returns what is to be given back. b is nil where none was to be had.
func (p *pool) land(b *batch, answers []store.RuleOutcome, sent, now time.Time) []*batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetches = false
	p.pace.heard(now, now.Sub(sent), answers)
	switch {
	case b == nil:
		return nil
	case !p.store.keep(b, now) || !b.remembered():
		return []*batch{b}
	case !b.usable(now):
		p.pace.rest(now)
		return []*batch{b}
	}
	p.pace.size = b.size
	return p.stock(now, b)
}

// stock puts b behind what is usable, and returns what is not, or has no place any more.
func (p *pool) stock(now time.Time, b *batch) (done []*batch) {
	stock := append(make([]*batch, 0, 2), b)
	for _, old := range p.batches() {
		switch {
		case old == nil:
		case len(stock) == 1 && old.usable(now):
			stock = []*batch{old, b}
		default:
			done = append(done, old)
			p.pace.gone += old.used()
		}
	}
	if len(stock) == 1 {
		stock = append(stock, nil)
	}
	p.first.Store(stock[0])
	p.second.Store(stock[1])
	return done
}

// forget drops what was taken ahead, and what is on its way, as the store has forgotten it.
func (p *pool) forget() {
	p.epoch.Add(1)
	p.empty(context.Background())
}

// empty gives back what was taken ahead.
func (p *pool) empty(ctx context.Context) {
	for _, b := range p.remove() {
		b.settle(ctx)
	}
}

func (p *pool) remove() (all []*batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.batches() {
		if b != nil {
			p.pace.gone += b.used()
			all = append(all, b)
		}
	}
	p.first.Store(nil)
	p.second.Store(nil)
	return all
}

// retire makes the pool one that takes no batches any more, where it has none and was not called for long.
func (p *pool) retire(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.batches() {
		if b.usable(now) {
			return false
		}
	}
	p.retired = !p.fetches && p.pace.cold(now)
	return p.retired
}

// of says whether the pool is that of a request.
func (p *pool) of(req *store.Request) bool {
	l := &p.limit
	return l.Key == req.Key && l.Algorithm == req.Algorithm && l.Burst == req.Burst && l.Segments == req.Segments && l.Prefetch == req.Prefetch &&
		slices.Equal(l.Rules, req.Rules)
}
