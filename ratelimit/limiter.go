package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/ratelimit/internal/denycache"
	"github.com/rlgen/rlgen/ratelimit/internal/prefetch"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Limiter decides the calls of a program's limited methods. One Limiter serves all of them; it is safe for concurrent
// use and does not close its store. It starts no goroutine but beside a call now and then, to count the instances ([WithInstances]) or to take
// permits ahead ([rules.Limit.Prefetch]), each of which ends within a second. The zero Limiter is not valid.
type Limiter struct {
	store      store.Store
	asked      store.Store     // the same, behind what is remembered of its denials and was taken of it ahead
	ahead      *prefetch.Store // that; nil where the store is in this process, or may be
	asksAlways bool
	began      time.Time
	local      store.Store
	localGiven bool
	locks      lock.Store // nil where none is given
	locksGiven bool
	localLocks lock.Store
	observers  []Observer
	log        *slog.Logger
	instances  int
	counted    bool    // by the store, so that instances is what holds until it has
	hasher     *hasher // of ids; nil for ids in the clear
	ipv6       int     // how many bits of an IPv6 address count
	colocated  bool
	mode       rules.Mode // rules.Shadow makes shadows of all limits
	computes   RulesFunc  // nil where none is given
	overrides  atomic.Pointer[overriding]
	health     health
	lockHealth health
	maxWaiters int64
	waiters    atomic.Int64
	lines      lines

	mu     sync.Mutex
	fleets map[string]*fleet       // by prefix
	member string                  // what this limiter is called in them
	types  map[string]string       // the package of each type, by "orders.Orders"
	keys   map[string]*rules.Limit // a limit that counts under each key

	policies []*rules.Policy // that are prepared
	refused  string          // why overrides were last refused; empty once they are not
	news     []func()        // what is to be told of overrides once mu is unlocked, in its order
	telling  bool            // that somebody does
}

// New returns a limiter that decides by s.
func New(s store.Store, opts ...Option) (*Limiter, error) {
	l := &Limiter{
		store:      s,
		log:        slog.Default(),
		instances:  1,
		counted:    true,
		began:      time.Now(),
		maxWaiters: DefaultMaxWaiters,
		ipv6:       DefaultIPv6Prefix,
		localLocks: lock.NewMemory(),
		health:     health{what: "rate limit store"},
		lockHealth: health{what: "lock store"},
		types:      make(map[string]string),
		keys:       make(map[string]*rules.Limit),
	}
	for _, o := range opts {
		o.apply(l)
	}
	switch {
	case isNil(s):
		return nil, errors.New("ratelimit: no store: want one of redisstore.New, memstore.New or your own")
	case l.instances < 1:
		return nil, fmt.Errorf("ratelimit: %d instances, want 1 or more", l.instances)
	case l.maxWaiters < 0:
		return nil, fmt.Errorf("ratelimit: at most %d waiters, want 0 or more", l.maxWaiters)
	case l.ipv6 < 1 || l.ipv6 > 128:
		return nil, fmt.Errorf("ratelimit: an IPv6 prefix of %d bits, want 1 to 128", l.ipv6)
	case l.localGiven && isNil(l.local):
		return nil, errors.New("ratelimit: a nil local store, want one, or no WithLocal for one in memory")
	case l.locksGiven && isNil(l.locks):
		return nil, errors.New("ratelimit: a nil lock store, want one of redislock.New or lock.NewMemory, or no WithLocks")
	case l.mode > rules.Shadow:
		return nil, fmt.Errorf("ratelimit: mode %v, want rules.Enforce or rules.Shadow", l.mode)
	case slices.Contains(l.observers, nil):
		return nil, errors.New("ratelimit: a nil Observer, want one, or no WithObserver")
	case l.log == nil:
		return nil, errors.New("ratelimit: no logger: want WithLogger with one, or no WithLogger for slog.Default")
	case l.hasher != nil && len(l.hasher.secret) < minSecret:
		return nil, fmt.Errorf("ratelimit: a secret of %d bytes, want %d or more", len(l.hasher.secret), minSecret)
	}
	if l.local == nil {
		l.local = memstore.New()
	}
	l.asked = l.cached(s)
	if _, ok := s.(store.Remote); ok {
		l.ahead = prefetch.New(l.asked)
		l.asked = l.ahead
	}
	return l, nil
}

// cached returns s, behind what is remembered of its denials where that is worth it.
func (l *Limiter) cached(s store.Store) store.Store {
	if _, ok := s.(store.Remote); !ok || l.asksAlways {
		return s
	}
	return denycache.New(s, nil)
}

// Close gives back what was taken ahead of limits with a Prefetch and is not used, so that other processes have it at once. It returns when that is done or ctx is. Call it before the store's client is closed; ratelimitfx does. The limiter goes on deciding, and
// takes nothing ahead any more. A program that is killed loses what it had: it leaves the windows by itself.
func (l *Limiter) Close(ctx context.Context) error {
	if l.ahead != nil {
		return l.ahead.Close(ctx)
	}
	return nil
}

// Guard is [Limiter.Prepare] for generated constructors, which have no error to return: like the registration of routes, it
// is part of wiring a program, and panics where Prepare fails.
func (l *Limiter) Guard(p *rules.Policy) *Guard {
	g, err := l.Prepare(p)
	if err != nil {
		panic(err.Error())
	}
	return g
}

// Prepare prepares the limits of one method. It fails on what can only be a mistake in the program: a nil Limiter, a policy
// that does not validate, two types that would share their counts because they have one name in packages of one name, or
// methods that share a bucket under different rules, or limits that hold something where the limiter has no [WithLocks].
func (l *Limiter) Prepare(p *rules.Policy) (*Guard, error) {
	if p == nil {
		return nil, errors.New("ratelimit: a nil *rules.Policy, want the one of a method")
	}
	if l == nil {
		return nil, fmt.Errorf("ratelimit: %s %s is given a nil *Limiter: make one with ratelimit.New", p.Type, p.Method)
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	if err := l.register(p); err != nil {
		return nil, fmt.Errorf("ratelimit: %w", err)
	}
	return l.compile(p, p, nil)
}

// register takes note of the names that p's keys are made of.
func (l *Limiter) register(p *rules.Policy) error {
	l.mu.Lock()
	defer l.unlock()
	if other, ok := l.types[p.Type]; ok && other != p.Package {
		return fmt.Errorf("two types are called %s, in %s and in %s, and would share their counts: rename one of them or its package",
			p.Type, other, p.Package)
	}
	l.types[p.Type] = p.Package
	for i := range p.Limits {
		key := l.template(p, i)
		own := &p.Limits[i]
		other, ok := l.keys[key]
		if ok && !slices.Equal(other.Rules, own.Rules) {
			return fmt.Errorf("%s %s has the rules %v under the key %s, where another limit has %v: give both the same rules, or other buckets",
				p.Type, p.Method, own.Rules, key, other.Rules)
		}
		if ok {
			if err := rules.SameCount(own, other); err != nil {
				return fmt.Errorf("%s %s has the limit %q under the key %s, where another one is %q: %w, or other buckets",
					p.Type, p.Method, own, key, other, err)
			}
		}
		l.keys[key] = own
	}
	if !slices.Contains(l.policies, p) {
		l.policies = append(l.policies, p)
		l.extend()
	}
	return nil
}

// isNil reports whether s is nil, or a nil pointer, on which every call would panic.
func isNil(s any) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}
