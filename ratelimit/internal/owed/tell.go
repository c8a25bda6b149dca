package owed

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// tell charges to the store what an account owes, and marks what of that it then knows. It is asked first for nothing: one that does not answer is not told by each call anew, of
// which it may hear once it does.
func (l *Ledger) tell(a *account, all []debt) error {
	if len(all) == 0 {
		return nil
	}
	ask := a.whole
	ask.Cost, ask.Prefetch, ask.Ban, ask.After = 0, 0, 0, 0
	if _, err := l.take(ask, false); err != nil {
		return err
	}
	l.answered()
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() {
			errs[i] = l.charge(a, all[i].charge)
			all[i].told = errs[i] == nil
		})
	}
	wait.Wait()
	return cmp.Or(errs...)
}

func (l *Ledger) take(req store.Request, detail bool) (store.Outcome, error) {
	ctx, cancel := l.within()
	defer cancel()
	return store.Take(ctx, l.at, []store.Request{req}, detail)
}

// mostTries is how often the store is told of one debt, of which others take the room meanwhile.
const mostTries = 3

// charge charges req to the store, as far as there is room.
func (l *Ledger) charge(a *account, req store.Request) error {
	for range mostTries {
		out, err := l.take(req, true)
		if err == nil && out.Allowed {
			return l.retain(a, &out.Receipt)
		}
		if err != nil || len(out.Rules) == 0 {
			return err
		}
		if req.Cost = min(req.Cost, out.Rules[0].Remaining); req.Cost <= 0 {
			break
		}
	}
	return nil
}

// retain gives back what was charged to a window of the store's clock which has begun since the last of it was let through: the telling took its time, or the clocks differ.
func (l *Ledger) retain(a *account, receipt *store.Receipt) error {
	if a.whole.Algorithm != rules.FixedWindow || a.whole.Start != rules.StartClock || len(receipt.Charges) == 0 {
		return nil
	}
	since := time.Duration(receipt.Charges[0].At) * time.Microsecond % receipt.Requests[0].Rules[0].Window
	if l.clock()-a.latest <= since {
		return nil
	}
	ctx, cancel := l.within()
	defer cancel()
	return l.at.GiveBack(ctx, *receipt)
}

// settled makes what the store was told the store's, where fresh permits were let through since. Nobody decides alone meanwhile, who would see it in neither place.
func (l *Ledger) settled(a *account, all []debt, fresh int64) {
	told := false
	for i := range all {
		if d := &all[i]; d.told {
			told = true
			l.own.Settle(l.clock(), &a.whole, d.rule, d.charge.Cost, d.age)
			if d.rule >= 0 {
				_ = l.local.Grant(context.Background(), []store.Request{d.back}) // which is no queue, and costs no more than its rule allows
			}
		}
	}
	if told && a.whole.Algorithm.Logs() {
		l.rewrite(all, fresh)
	}
}

// rewrite leaves in the local store, of a log, what was not told: as of when it was let through, or a little later. Of fresh permits some may have been given back. Bans stay.
func (l *Ledger) rewrite(all []debt, fresh int64) {
	ctx := context.Background()
	rest := all[0].back
	rest.Cost = 0
	var out store.Outcome
	if l.local.Peek(ctx, []store.Request{rest}, &out) != nil {
		return
	}
	used := rest.Rules[0].Count - out.Rules[0].Remaining
	if rest.Cost = used; used > 0 {
		_ = l.local.Grant(ctx, []store.Request{rest}) // its rule is wide enough
	}
	put := func(cost int64, age time.Duration) {
		if rest.Cost, rest.Ahead = cost, -age; cost > 0 {
			_, _ = store.Take(ctx, l.local, []store.Request{rest}, false) // which allows all
		}
	}
	for i := len(all) - 1; i >= 0; i-- {
		used -= all[i].back.Cost
		if !all[i].told {
			put(all[i].back.Cost, all[i].age)
		}
	}
	put(min(fresh, used), 0)
}

const (
	tellers     = 64  // accounts that a round settles at once
	mostRefused = 256 // accounts that a round fails to settle, one after the other, before it ends
	rests       = 10  // as long as a round that failed takes, none is begun
)

// TellOthers begins, beside a call that the store has decided, to tell it of what no call asks for, unless that has failed a moment ago. The goroutines that it starts end with the
// accounts, or once the store fails.
func (l *Ledger) TellOthers() {
	if l.Empty() {
		return
	}
	l.answered()
	if !l.round.Load() && int64(l.clock()) >= l.due.Load() {
		go l.tellRound()
	}
}

// tellInTime tells the store where no call does, again and again until nothing is owed.
func (l *Ledger) tellInTime() {
	if int64(l.clock()) >= l.due.Load() {
		l.tellRound()
	}
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
	began := l.clock()
	if !l.tellAll(context.Background()) {
		now := l.clock()
		l.due.Store(int64(now + max(calm, rests*(now-began))))
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
	var failed atomic.Bool
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
				if s.err == nil {
					refused.Store(0)
				} else {
					refused.Add(1)
					failed.Store(true)
				}
			}
		})
	}
	wait.Wait()
	return !failed.Load()
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
