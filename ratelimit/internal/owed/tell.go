package owed

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// tell charges to the store what an account owes, and returns that of it which the store knows of then. The store is asked first for nothing: one that does not answer is not told by
// each call anew, of which it may hear once it does.
func (l *Ledger) tell(a *account) (told []debt, err error) {
	all := l.debts(a)
	if len(all) == 0 {
		return nil, nil
	}
	ask := a.whole
	ask.Cost, ask.Prefetch, ask.Ban, ask.After = 0, 0, 0, 0
	if _, err := store.Take(context.Background(), l.at, []store.Request{ask}, false); err != nil {
		return nil, err
	}
	l.heard.Store(true)
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { errs[i] = l.charge(all[i].charge) })
	}
	wait.Wait()
	for i := range all {
		if errs[i] == nil {
			told = append(told, all[i])
		}
	}
	return told, cmp.Or(errs...)
}

// mostTries is how often the store is told of one debt, of which others take the room meanwhile.
const mostTries = 3

// charge charges req to the store, as far as there is room.
func (l *Ledger) charge(req store.Request) error {
	for range mostTries {
		out, err := store.Take(context.Background(), l.at, []store.Request{req}, true)
		if err != nil || out.Allowed {
			return err
		}
		if req.Cost = min(req.Cost, out.Rules[0].Remaining); req.Cost <= 0 {
			break
		}
	}
	return nil
}

// settled makes a debt what the store knows of. Nobody decides alone meanwhile, who would see it in neither place.
func (l *Ledger) settled(a *account, d *debt) {
	l.own.Settle(l.clock(), &a.whole, d.rule, d.charge.Cost, d.age)
	_ = l.local.Grant(context.Background(), []store.Request{d.back}) // which is no queue, and costs no more than its rule allows
}

const (
	tellers     = 16 // accounts that a round settles at once
	mostRefused = 16 // accounts that a round fails to settle before it ends
)

// TellOthers begins, beside a call that the store has decided, to tell it of what no call asks for, unless that has failed a moment ago. The goroutines that it starts end with the
// accounts, or once the store fails.
func (l *Ledger) TellOthers() {
	if l.Empty() {
		return
	}
	l.heard.Store(true)
	if !l.round.Load() && int64(l.clock()) >= l.due.Load() {
		go l.tellRound()
	}
}

// tellInTime tells the store where no call does, again and again until nothing is owed.
func (l *Ledger) tellInTime() {
	l.tellRound()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.accounts) == 0 || l.closed {
		l.next = nil
		return
	}
	l.next = time.AfterFunc(calm, l.tellInTime)
}

// tellRound settles all accounts, unless somebody else does.
func (l *Ledger) tellRound() {
	if l.round.Swap(true) {
		return
	}
	defer l.round.Store(false)
	if !l.tellAll(context.Background()) {
		l.due.Store(int64(l.clock() + calm))
	}
}

// Close tells the store of all that is owed, as far as it can be told at once, and returns when that is done or ctx is. What is owed later it is told beside calls only.
func (l *Ledger) Close(ctx context.Context) {
	l.mu.Lock()
	l.closed = true
	if l.next != nil {
		l.next.Stop()
	}
	l.mu.Unlock()
	l.tellAll(ctx)
}

// tellAll settles all accounts that there are, and reports whether it could.
func (l *Ledger) tellAll(ctx context.Context) bool {
	keys := l.keys()
	var next, refused atomic.Int64
	var wait sync.WaitGroup
	for range min(tellers, len(keys)) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(keys)) && refused.Load() < mostRefused; i = next.Add(1) - 1 {
				s, _ := l.begin(keys[i], false)
				if s == nil {
					continue
				}
				select {
				case <-s.done:
				case <-ctx.Done():
					return
				}
				if s.err != nil {
					refused.Add(1)
				}
			}
		})
	}
	wait.Wait()
	return refused.Load() == 0
}

func (l *Ledger) keys() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]string, 0, len(l.accounts))
	for key := range l.accounts {
		keys = append(keys, key)
	}
	return keys
}
