package lock

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Locker locks names: each is held by one owner at a time, of all that use the same store. It is safe for concurrent
// use and needs no closing. The zero Locker is not valid; [New] makes one.
type Locker struct{ settings }

// New returns a locker over store.
func New(store Store, opts ...Option) (*Locker, error) {
	s, err := newSettings(store, opts)
	if err != nil {
		return nil, err
	}
	return &Locker{s}, nil
}

// Lock waits until it holds name, in the order in which those of its process came, or fails with [ErrBusy] if that takes longer than
// [WithWait] permits, or with the context's error.
//
// The context that it returns is the owner: Lock of the same name with it, or with one derived from it, nests at once,
// whatever locker of the same store it is called on. It is done when the hold is let go ([ErrReleased]) or lost ([ErrLost] is its cause),
// or when ctx is, which also ends the renewing: the hold then lasts no longer than its lease. If Lock fails, it is ctx.
func (l *Locker) Lock(ctx context.Context, name string) (context.Context, *Hold, error) {
	return l.lock(ctx, name, l.wait)
}

// TryLock is Lock without waiting. It fails with [ErrBusy], too, where others wait; where those are of this process, without asking the store, of which they have heard within two seconds.
func (l *Locker) TryLock(ctx context.Context, name string) (context.Context, *Hold, error) {
	return l.lock(ctx, name, 0)
}

// LockWithin is Lock that waits up to wait, whatever [WithWait] says; with zero or less it is TryLock. The store is asked once however short that is, and may take
// its time to answer, but where others of this process wait who are to be served before.
func (l *Locker) LockWithin(ctx context.Context, name string, wait time.Duration) (context.Context, *Hold, error) {
	return l.lock(ctx, name, max(0, wait))
}

func (l *Locker) lock(ctx context.Context, name string, wait time.Duration) (context.Context, *Hold, error) {
	if err := store.Ended(ctx); err != nil {
		return ctx, nil, err
	}
	if t := holding(ctx, l.store, name); t != nil {
		if h, err := t.nest(ctx, l.lease); h != nil || err != nil {
			return h.give(ctx, err)
		}
	}
	t := newTenure(ctx, &l.settings, Claim{Name: name})
	h, err := t.begin(ctx, wait, nil)
	return h.give(ctx, err)
}

// give is what Lock returns of a hold, or of an error.
func (h *hold) give(ctx context.Context, err error) (context.Context, *Hold, error) {
	if err != nil {
		return ctx, nil, err
	}
	return h, (*Hold)(h), nil
}

// newOwner names an owner, of all that there ever are, with suffix after it.
func newOwner(suffix string) string {
	var number [16]byte
	binary.NativeEndian.PutUint64(number[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(number[8:], rand.Uint64())
	var text [32]byte
	return string(append(base64.RawURLEncoding.AppendEncode(text[:0], number[:]), suffix...))
}

// Hold is one Lock that has not been unlocked. It is safe for concurrent use.
type Hold hold

// Unlock lets go. Where holds nest, the lock is free when all of them have, in any order. Once Unlock returns nil, nothing that is on its way can
// change the lock any more.
//
// It goes ahead even where the hold's context is done. It fails with [ErrLost] if the hold was lost before, with [ErrNotHeld] if it is
// called again, and with the store's error where that does not answer: the store then goes on trying for a while.
func (h *Hold) Unlock() error { return (*hold)(h).release() }

// Refresh puts off the end of the lease to a whole lease from now, which otherwise happens by itself, three times in
// each. It fails with [ErrLost] if the lock is not held any more.
func (h *Hold) Refresh(ctx context.Context) error { return (*hold)(h).refresh(ctx) }

// TTL asks the store how long the lease still runs. It fails with [ErrLost] if the lock is not held any more.
func (h *Hold) TTL(ctx context.Context) (time.Duration, error) { return (*hold)(h).ttl(ctx) }

// Valid is how long the lock is surely still held if it is not renewed, as this process's clock has it; zero or less if it
// may be another's. It asks nobody.
func (h *Hold) Valid() time.Duration { return (*hold)(h).valid() }

// Token is the hold's fencing token: larger than the token of everyone who held the lock before.
func (h *Hold) Token() int64 { return h.tenure.token }

// fence is what a context carries its fencing token by.
type fence struct{}

// Token is the fencing token of the lock that ctx holds, of the innermost one if there are several; 0 if there is none. It
// stays the same after the lock is lost. Where ctx holds several, [TokenOf] has that of each.
func Token(ctx context.Context) int64 {
	token, _ := ctx.Value(fence{}).(int64)
	return token
}

// TokenOf is the fencing token of the lock of name that ctx holds, of whatever store; 0 if it holds none of that name. It stays the same after the
// lock is lost.
func TokenOf(ctx context.Context, name string) int64 {
	for {
		h, ok := ctx.Value(innermost{}).(*hold)
		if !ok {
			return 0
		}
		if h.tenure.claim.Name == name {
			return h.tenure.token
		}
		ctx = h.outer
	}
}

// WithoutToken returns a context that holds all that ctx does, of which [Token] is 0 until it holds one more: for code that goes on
// without its own lock, and must not take the token of one around it for that.
func WithoutToken(ctx context.Context) context.Context {
	return context.WithValue(ctx, fence{}, int64(0))
}
