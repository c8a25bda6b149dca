package ratelimit

import (
	"log/slog"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Option configures a [Limiter].
type Option interface{ apply(*Limiter) }

type optionFunc func(*Limiter)

func (f optionFunc) apply(l *Limiter) { f(l) }

// WithObserver makes the limiter tell o of every decision, and may be given several times. The default is to tell nobody, which
// spares the store the work of finding out what remains.
func WithObserver(o Observer) Option {
	return optionFunc(func(l *Limiter) { l.observers = append(l.observers, o) })
}

// WithLogger makes the limiter log to log. The default is [slog.Default]. It logs when it begins to decide without its store,
// when the store refuses to decide, and when the store is back, never once a call.
func WithLogger(log *slog.Logger) Option {
	return optionFunc(func(l *Limiter) { l.log = log })
}

// WithoutDenyCache makes every call reach the store. The default is that a store that is [store.Remote] is not asked again what it has just denied and
// would still deny, for at most a second: callers who hammer at an empty limit cost it nothing then. Turn it off where permits that other processes
// give back, or keys that are reset, are to be had at once, or where observers are to be told what remains as of now: see [SourceCache].
func WithoutDenyCache() Option {
	return optionFunc(func(l *Limiter) { l.asksAlways = true })
}

// WithInstances says how many processes share the store, so that a process that decides alone takes its share of each
// count: the count divided by n, rounded down, at least 1. The default is to count them, where the store is a [store.Fleet] such as
// Redis: beside a decided call, at most every five seconds, the limiter tells the store that it is there, and it holds on to the last number it has
// heard, which is 1 before it has heard any. Give n where processes start while Redis is down, or may not be called for long before it is; 1 is the whole count for each of them. With n
// nobody is counted, and the store is told nothing.
func WithInstances(n int) Option {
	return optionFunc(func(l *Limiter) { l.instances, l.counted = n, false })
}

// WithHashIDs makes keys hold a keyed hash of each id in place of the id, for ids that are personal data. All processes
// of a service need the same secret. The default is ids in the clear, as far as they are short.
func WithHashIDs(secret []byte) Option {
	return optionFunc(func(l *Limiter) { l.hasher = newHasher(append([]byte{}, secret...)) })
}

// WithIPv6Prefix makes limits by ip count IPv6 addresses together that have their first bits in common, in place of
// [DefaultIPv6Prefix]: 56 or 48 where one customer holds that much and changes networks to have a fresh count; 128 where every
// address is a host of its own. All processes of a service need the same. IPv4 addresses count one by one.
func WithIPv6Prefix(bits int) Option {
	return optionFunc(func(l *Limiter) { l.ipv6 = bits })
}

// WithMode makes every limit a shadow, as if its directive said mode=shadow: it decides, counts and reports, and no call is denied, nor fails for
// lack of an identity or of a store. It is for the first days of limits whose numbers nobody is sure of, and costs what limits cost: of a store that does
// not answer, the first few calls wait for its budget, which for locks is a second. Counts go on where the mode
// is taken away. The default is rules.Enforce: limits are what their directives say.
func WithMode(m rules.Mode) Option {
	return optionFunc(func(l *Limiter) { l.mode = m })
}

// WithLocal makes s decide where the store cannot and a limit says onfail=local. The default is a store in this process's
// memory. What a [memstore.Store] lets through the limiter's store is told once it decides again; it is then for this limiter alone. Of other stores it is not told.
func WithLocal(s store.Store) Option {
	return optionFunc(func(l *Limiter) { l.local, l.localGiven = s, true })
}

// WithLocks makes s keep what limits of kind concurrency and lock hold: redislock.New over the client that keeps the counts, or
// [lock.NewMemory] for a program of one instance. There is no default: without it such limits cannot be prepared.
func WithLocks(s lock.Store) Option {
	return optionFunc(func(l *Limiter) { l.locks, l.locksGiven = s, true })
}

// WithMaxWaiters sets how many calls of limits with a Wait may be waiting at once, for room, in flight or for a lock; a further one that would have to wait is
// denied at once ([ExceededError.Crowded]). The default is [DefaultMaxWaiters]; 0 makes no call wait. Each waiting call holds its
// goroutine, and whatever its caller holds.
func WithMaxWaiters(n int) Option {
	return optionFunc(func(l *Limiter) { l.maxWaiters = int64(n) })
}
