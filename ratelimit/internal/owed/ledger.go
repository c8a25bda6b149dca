// Package owed keeps account of what a process has let through alone, while the store that keeps the counts could not decide, until it has told that store.
package owed

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/recall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	// MaxKeys is how many keys a [Ledger] has accounts of at most. What is owed under others the store is never told.
	MaxKeys = 1 << 16

	// defaultBudget is how long a call lasts of a store that does not say so.
	defaultBudget = 100 * time.Millisecond
	// calm is how long a store counts as slow that took longer to be told than a call can wait, and how long after a round that failed the next one begins.
	calm = time.Second
)

// ErrUntold is the cause of a call that the store is not asked for, since it could not be told in time of what was let through before.
var ErrUntold = errors.New("the store has not been told yet of what was let through without it")

// Ledger has an account for each key under which something is owed: the counts of the local store are what is owed, as long as their windows have them. The
// store is told of them by charging it, whether it has room or not: a call under a key waits for that, and what no call asks for follows, within seconds.
//
// What the store is told with an answer that is lost it is told again: it may then count more than was let through, never less.
//
// An account takes about 500 bytes. A Ledger is safe for concurrent use; [NewLedger] makes one.
type Ledger struct {
	at       store.Store // that is told
	local    store.Store
	own      *recall.Table // of what the store knows that this process has let through
	clock    func() time.Duration
	patience time.Duration // of a call that waits until the store is told

	mu       sync.Mutex
	accounts map[string]*account
	slow     time.Duration // when the store last took longer than patience
	next     *time.Timer   // begins a round; nil until something is owed
	closed   bool

	open  atomic.Int64 // accounts
	due   atomic.Int64 // when a call may begin a round, ns of clock
	round atomic.Bool  // one is under way
}

// account is what is known of one key.
type account struct {
	whole, part store.Request // what the store was asked, and the local store, when something was let through last
	excess      int64         // what calls have cost beyond what the local store has charged
	latest      time.Duration // when that was last

	waits    bool        // the store could not decide since it was told: it is told before it decides the next call
	heard    bool        // it has been told since then, though not of all
	settling *settlement // that is under way; nil if none is
}

// settlement is the telling of one account. err is valid once done is closed.
type settlement struct {
	heard atomic.Bool // the store has answered
	done  chan struct{}
	err   error
}

// NewLedger returns an empty ledger of what local lets through in the place of at. What at has been told of is noted in own. clock is that of own.
func NewLedger(at, local store.Store, own *recall.Table, clock func() time.Duration) *Ledger {
	l := &Ledger{at: at, local: local, own: own, clock: clock, patience: defaultBudget / 2, slow: -calm, accounts: make(map[string]*account)}
	if b, ok := at.(store.Budgeted); ok {
		l.patience = b.Budget() / 2
	}
	return l
}

// Owe takes note that the local store has charged part in the place of whole, which the store could not decide because of err. Queues are not owed: their calls
// have been told when to go on.
func (l *Ledger) Owe(whole, part *store.Request, err error) {
	if whole.Queue || whole.Cost == 0 {
		return
	}
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[whole.Key]
	if a == nil {
		if len(l.accounts) >= MaxKeys && !l.evict() {
			return
		}
		a = new(account)
		l.accounts[whole.Key] = a
		l.open.Store(int64(len(l.accounts)))
		if l.next == nil && !l.closed {
			l.next = time.AfterFunc(calm, l.tellInTime)
		}
	}
	a.whole, a.part, a.latest = *whole, *part, now
	a.excess += whole.Cost - part.Cost
	a.waits = a.waits || !errors.Is(err, ErrUntold) && now-l.slow >= calm // for a slow store calls would wait in vain, again and again
}

// evict makes room for an account where one of a few owes nothing any more, and says whether there is.
func (l *Ledger) evict() bool {
	looks := 8
	for key, a := range l.accounts {
		if a.settling == nil && len(l.debts(a)) == 0 {
			delete(l.accounts, key)
			return true
		}
		if looks--; looks == 0 {
			break
		}
	}
	return false
}

// Empty says whether nothing is owed.
func (l *Ledger) Empty() bool { return l.open.Load() == 0 }

// Settle tells the store of what is owed under the keys of requests, which it is to decide next, or waits until somebody else has told it. It returns until when the store
// may then be asked: the zero time where Settle has not waited. An error means that the store is not to be asked: it cannot be told, or not soon enough, or ctx is done.
//
// Of a store that has not answered since it could not decide, one call waits at a time for each key.
func (l *Ledger) Settle(ctx context.Context, requests []store.Request) (until time.Time, err error) {
	waits := false
	for i := range requests {
		s, mine := l.begin(requests[i].Key, true)
		if s != nil && !mine && !s.heard.Load() {
			return until, errUntold
		}
		waits = waits || s != nil
	}
	if !waits {
		return until, nil
	}
	began := time.Now()
	patience := time.NewTimer(l.patience)
	defer patience.Stop()
	for i := range requests {
		for s, _ := l.begin(requests[i].Key, true); s != nil; s, _ = l.begin(requests[i].Key, true) {
			select {
			case <-s.done:
				if s.err != nil {
					return until, s.err
				}
			case <-patience.C:
				return until, errUntold
			case <-ctx.Done():
				return until, store.Ended(ctx)
			}
		}
	}
	return began.Add(2 * l.patience), nil
}

var errUntold error = &store.Error{Class: store.Unavailable, Err: ErrUntold}

// begin begins to settle the account of key, or returns the settlement that is under way. It returns nil where there is nothing to tell, or, to who waits, nothing that
// calls wait for.
func (l *Ledger) begin(key string, waits bool) (s *settlement, begun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[key]
	if a == nil || waits && !a.waits {
		return nil, false
	}
	if a.settling == nil {
		a.settling, begun = &settlement{done: make(chan struct{})}, true
		a.settling.heard.Store(a.heard)
		go l.settle(key, a, *a)
	}
	return a.settling, begun
}

// settle tells the store of the account of key, as it was. What is let through meanwhile by calls that could not wait so long is told later, or else a slow store
// would never be asked again.
func (l *Ledger) settle(key string, a *account, as account) {
	began := time.Now()
	as.settling.err = l.tell(&as, &as.settling.heard)
	quick := time.Since(began) < l.patience
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(as.settling.done)
	a.settling = nil
	if as.settling.err == nil {
		a.excess -= as.excess
		a.heard = true
		if a.waits = quick; !quick {
			l.slow = l.clock()
		}
		if len(l.debts(a)) == 0 {
			delete(l.accounts, key)
		}
	} else {
		a.heard = false
	}
	l.open.Store(int64(len(l.accounts)))
}
