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
	// overtime is how much longer than its budget a store may take to answer what it is told, which no call waits for.
	overtime = time.Second
	// calm is how long a store counts as slow that took longer to be told than a call can wait. Calls would wait for it in vain, again and again, where it fails now and then:
	// they do so only where it fails as often as down says, without an answer in between.
	calm = time.Second
	down = 3
)

// ErrUntold is the cause of a call that the store is not asked for, since it could not be told in time of what was let through before.
var ErrUntold = errors.New("the store has not been told yet of what was let through without it")

// Ledger has an account for each key under which something is owed: the counts of the local store are what is owed, as long as their windows have them. The
// store is told of them by charging it, whether it has room or not: a call under a key waits for that, and what no call asks for follows, within seconds.
//
// What the store is told with an answer that is lost it is told again: it may then count more than was let through, never less.
//
// An account takes about 400 bytes. A Ledger is safe for concurrent use; [NewLedger] makes one.
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
	heard atomic.Bool  // the store has answered since it could not decide
	fails atomic.Int64 // calls that it could not decide since it answered
	due   atomic.Int64 // when a call may begin a round, ns of clock
	round atomic.Bool  // one is under way

	alone   sync.RWMutex  // read-locked by who decides alone
	returns atomic.Uint64 // accounts that were settled
}

// account is what is known of one key.
type account struct {
	whole, part store.Request // what the store was asked, and the local store, when something was let through last
	excess      int64         // what calls have cost beyond what the local store has charged
	charged     int64         // by the local store, of all calls
	latest      time.Duration // when that was last

	waits    bool        // the store could not decide since it was told: it is told before it decides the next call
	settling *settlement // that is under way; nil if none is
}

// settlement is the telling of one account. err is valid once done is closed.
type settlement struct {
	done chan struct{}
	err  error
}

// NewLedger returns an empty ledger of what local lets through in the place of at. What at has been told of is noted in own. clock is that of own.
func NewLedger(at, local store.Store, own *recall.Table, clock func() time.Duration) *Ledger {
	l := &Ledger{at: at, local: local, own: own, clock: clock, patience: defaultBudget / 2, slow: -calm, accounts: make(map[string]*account)}
	if b, ok := at.(store.Budgeted); ok {
		l.patience = b.Budget() / 2
	}
	return l
}

// Returns counts how often the store was told of an account. Who asks the store looks at it before, for [Ledger.Alone].
func (l *Ledger) Returns() uint64 { return l.returns.Load() }

// Always is a count of returns that never changes.
const Always = 1<<64 - 1

// Alone calls decide, which decides a call without the store and tells [Ledger.Owe] of it, unless the store has been told of something since there were so many returns: then it decides again,
// and may have let others through meanwhile.
func (l *Ledger) Alone(since uint64, decide func()) bool {
	l.alone.RLock()
	defer l.alone.RUnlock()
	if since != Always && since != l.returns.Load() {
		return false
	}
	decide()
	return true
}

// within is the context of what the store is told.
func (l *Ledger) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*l.patience+overtime)
}

// Late says whether a call that has begun has no time left to wait until the store is told.
func (l *Ledger) Late(began time.Time) bool { return time.Since(began) >= l.patience }

// Ends is when a call that has begun is to end, which waited until the store was told.
func (l *Ledger) Ends(began time.Time) time.Time { return began.Add(2 * l.patience) }

// Owe takes note that the local store has charged part in the place of whole, which the store could not decide because of err. Queues are not owed: their calls
// have been told when to go on.
func (l *Ledger) Owe(whole, part *store.Request, err error) {
	if whole.Queue || whole.Cost == 0 {
		return
	}
	now, untold := l.clock(), errors.Is(err, ErrUntold)
	if !untold {
		l.heard.Store(false)
		l.fails.Add(1)
	}
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
	a.charged += part.Cost
	a.waits = a.waits || !untold && (now-l.slow >= calm || l.fails.Load() >= down)
}

// answered takes note that the store answers.
func (l *Ledger) answered() {
	l.heard.Store(true)
	l.fails.Store(0)
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

// Settle tells the store of what is owed under the keys of requests, which it is to decide next for a call that has begun, or waits until somebody else has told it, and reports
// whether it has waited. An error means that the store is not to be asked: it cannot be told, or not soon enough, or ctx is done.
//
// Of a store that has not answered since it could not decide, one call waits at a time for each key.
func (l *Ledger) Settle(ctx context.Context, began time.Time, requests []store.Request) (waited bool, err error) {
	for i := range requests {
		s, mine := l.begin(requests[i].Key, true)
		if s != nil && !mine && !l.heard.Load() {
			return waited, errUntold
		}
		waited = waited || s != nil
	}
	if !waited {
		return false, nil
	}
	patience := time.NewTimer(l.patience - time.Since(began))
	defer patience.Stop()
	for i := range requests {
		for s, _ := l.begin(requests[i].Key, true); s != nil; s, _ = l.begin(requests[i].Key, true) {
			select {
			case <-s.done:
				if s.err != nil {
					return true, s.err
				}
			case <-patience.C:
				return true, errUntold
			case <-ctx.Done():
				return true, store.Ended(ctx)
			}
		}
	}
	return true, nil
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
		go l.settle(key, a)
	}
	return a.settling, begun
}

// settle tells the store of the account of key, as it is now. What is let through meanwhile by calls that could not wait so long is told later, or else a slow store
// would never be asked again.
func (l *Ledger) settle(key string, a *account) {
	began := time.Now()
	as, all := l.state(a)
	err := l.tell(&as, all)
	quick := time.Since(began) < l.patience
	l.alone.Lock()
	defer l.alone.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled(&as, all, a.charged-as.charged)
	if err == nil || as.whole.Algorithm.Logs() && all[0].told { // the newest, which has the excess
		a.excess -= as.excess
	}
	if err == nil {
		l.returns.Add(1)
		if a.waits = quick; !quick {
			l.slow = l.clock()
		}
		if len(l.debts(a)) == 0 {
			delete(l.accounts, key)
		}
	}
	l.open.Store(int64(len(l.accounts)))
	a.settling = nil
	as.settling.err = err
	close(as.settling.done)
}

// state returns a copy of an account, and what it owes, at an instant at which nobody decides alone.
func (l *Ledger) state(a *account) (account, []debt) {
	l.alone.Lock()
	defer l.alone.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	return *a, l.debts(a)
}

// Finish tells the store of what is owed under the keys of requests, which somebody is about to set right, or waits until somebody else has: what is told later would be beside that.
// It returns once all is told that was owed before, or cannot be.
func (l *Ledger) Finish(ctx context.Context, requests []store.Request) {
	for i := range requests {
		for range 2 { // one that is under way, and its own
			s, mine := l.begin(requests[i].Key, false)
			if s == nil {
				break
			}
			select {
			case <-s.done:
			case <-ctx.Done():
				return
			}
			if mine || s.err != nil {
				break
			}
		}
	}
}
