package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	aloft = 2  // rides of a lane that are on their way at once: while the server executes one, the next is written
	few   = 32 // decisions, which a ride takes whatever others have
)

// lane decides for callers who come while others are served: their decisions queue, and the next ride has all of them.
// Whoever comes to an empty lane goes at once. Nothing waits for company.
type lane struct {
	store  *Store
	server *rediscall.Server
	most   int  // decisions of a ride
	tags   bool // a script decides on keys of one hash tag
	prompt bool // the client heeds the ends of contexts

	idle sync.Pool // of *rider, the lane's own: a rider has a channel, which only the bubble of testing/synctest that made it may use

	mu    sync.Mutex
	queue []*rider
	waits roster
	aloft int       // rides on their way that somebody waits for
	busy  int       // riders on them
	late  int       // rides whose callers drive them, and should have been back
	wary  time.Time // until when nobody drives, for one has been late; zero if none has
}

// newLane makes a lane to a server.
func newLane(s *Store, server *rediscall.Server) *lane {
	l := &lane{store: s, server: server, most: s.most, tags: s.group != nil}
	l.waits = newRoster(l.expire)
	if c, ok := s.client.(*redis.Client); ok {
		l.prompt = prompt(c.Options())
	}
	return l
}

// prompt says whether a client with these options heeds the ends of contexts, whatever it waits for: for the reply, for that to the
// first words on a new connection, and for all that the program gives it but what is asked without a context.
func prompt(o *redis.Options) bool {
	return o.ContextTimeoutEnabled && o.CredentialsProvider == nil && o.StreamingCredentialsProvider == nil && o.Limiter == nil
}

// take decides one call.
func (l *lane) take(ctx context.Context, d decision, out *store.Outcome) error {
	if l.server.Resting() {
		return l.server.Rest()
	}
	r := l.newRider(ctx, d)
	r.answers = l.server.Answers()
	for alone := false; ; {
		r.base = l.store.base()
		v, err := l.decide(r, alone)
		switch {
		case err != nil:
			return err
		case v.status == failed && !r.alone:
			alone = true
		case v.status != taken:
			r.answer(v, out)
			l.free(r)
			return nil
		}
	}
}

// decide sends the rider along the lane, alone if it is to be, and returns its answer. After an error it may still be on a ride, and
// is not to be used again.
func (l *lane) decide(r *rider, alone bool) (verdict, error) {
	r.car = nil
	r.state.Store(queued)
	ride := l.enter(r, alone)
	if ride != nil && ride.driven {
		return l.drive(ride, r)
	}
	if ride != nil {
		go l.run(ride)
	}
	if done := r.ctx.Done(); done != nil {
		select {
		case <-r.landed:
			return l.verdict(r)
		case <-done:
		}
		if sent, ok := r.leave(); ok {
			l.leave(r, sent)
			return verdict{}, l.expired(r, sent)
		}
	}
	<-r.landed
	return l.verdict(r)
}

// verdict returns what a rider has been told.
func (l *lane) verdict(r *rider) (verdict, error) {
	if !r.overdue {
		if r.car.ride.riders > 1 {
			r.car.told.Done()
		}
		return r.verdict, r.err
	}
	l.leave(r, r.sent)
	return verdict{}, l.expired(r, r.sent)
}

// expired is the error of a rider whose context or budget has ended.
func (l *lane) expired(r *rider, sent bool) error { return l.server.At(expired(r.ctx, sent)) }

// expire ends the wait of those whose budgets have ended.
func (l *lane) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for r := l.waits.first; r != nil && !r.budget.After(now); r = l.waits.first {
		l.waits.remove(r)
		if r.hasty {
			r.hasty = false
			ride := r.car.ride
			ride.hasty--
			l.overdue(ride, r)
			l.deserted(ride)
		} else if sent, ok := r.leave(); ok {
			r.sent, r.overdue = sent, true
			r.landed <- struct{}{}
		}
	}
	l.waits.reset()
}

// enter puts the rider into the queue, or on a ride of its own, which it returns.
func (l *lane) enter(r *rider, alone bool) *ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aloft == aloft && !alone {
		l.queue = append(l.queue, r)
		l.waits.add(r)
		return nil
	}
	ride := newRide(l)
	ride.board(r)
	ride.released = alone
	ride.driven = l.prompt && l.late == 0 && r.ctx.Done() == nil && (l.wary.IsZero() || time.Now().After(l.wary))
	if !ride.driven {
		l.waits.add(r)
	}
	if !alone {
		l.aloft++
		l.busy++
	}
	return ride
}

// drive makes a ride in the goroutine of its only rider, which spares it the way from one to another and back: nothing but the
// budget, which the client keeps, ends this call.
func (l *lane) drive(ride *ride, r *rider) (verdict, error) {
	end := time.AfterFunc(time.Until(r.budget), func() { l.overrun(ride) })
	ride.fly()
	end.Stop()
	if time.Since(r.budget) > tardy {
		l.beware()
	}
	if next := l.next(ride); next != nil {
		go l.run(next)
	}
	<-r.landed
	if ofContext(r.err) {
		return verdict{}, l.expired(r, ride.first.call.Sent())
	}
	return r.verdict, r.err
}

const (
	tardy    = 20 * time.Millisecond // by which a caller may be late who drives a ride, on a busy machine
	wariness = time.Minute
)

// beware keeps callers from driving for a while: the client does not heed the ends of contexts as its options say.
func (l *lane) beware() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wary = time.Now().Add(wariness)
}

// overrun ends the time of a ride whose caller drives it. Should the client not heed that, a hook of its for instance, then that caller
// waits for it, but no other, and nobody else drives until then, nor for a while after.
func (l *lane) overrun(r *ride) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.over {
		return
	}
	r.late = true
	l.late++
	r.span.end()
	r.report(errOverdue)
	l.release(r)
}

// run makes a ride, and then those that the queue has for it.
func (l *lane) run(r *ride) {
	deepen()
	for r != nil {
		r.fly()
		r.wait() // those who have their answers may come again
		r = l.next(r)
	}
}

// deepen makes a new goroutine's stack as deep as clients need it while there is nothing on it that would have to be moved.
//
//go:noinline
func deepen() byte {
	var frame [8 << 10]byte
	return frame[mostKeys]
}

// next returns the ride after one that has landed, nil if there is none.
func (l *lane) next(r *ride) *ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.over = true
	if r.late {
		l.late--
	}
	if r.released {
		return nil
	}
	return l.follow(r) // of a rider that has left just before the ride landed, the lane hears afterwards
}

// release gives the place of a ride that is on its way to another. The lane's mu is held.
func (l *lane) release(r *ride) {
	if r.released {
		return
	}
	if next := l.follow(r); next != nil {
		go l.run(next)
	}
}

// follow puts what queues on a new ride in the place of one, or gives up the place.
func (l *lane) follow(last *ride) *ride {
	last.released = true
	l.busy -= last.riders
	if len(l.queue) == 0 {
		l.aloft--
		return nil
	}
	r := newRide(l)
	n, i := share(len(l.queue), l.busy, l.most), 0
	if !l.tags {
		r.add("").grow(n)
	}
	for i < len(l.queue) && r.riders < n && r.boards(l.queue[i]) {
		i++
	}
	l.queue = slices.Delete(l.queue, 0, i)
	if r.riders == 0 {
		l.aloft--
		return nil
	}
	l.busy += r.riders
	return r
}

// share is how many of a queue a ride takes while others have so many riders. All rides are to have as many: while the server executes one, those of another are told and
// come again, and of a long one and a short one, each would wait for the other. A few are not shared out.
func share(queue, busy, most int) int {
	return min(max(few, (queue+busy+aloft-1)/aloft), queue, most)
}

// leave tells the ride of a rider that has left, whose decision the server may have if it was sent. A ride that has lost all of its riders no longer keeps others waiting.
//
// A caller who goes away says nothing of the server. One whose deadline is sooner than the budget does not either, but the budget goes on without him: an answer within it, be
// it too late for him, says that the server does well, and none that it does not.
func (l *lane) leave(r *rider, sent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := r.car
	if c == nil {
		l.waits.remove(r)
		return
	}
	if c.landed {
		return // just as he has left
	}
	ride := c.ride
	ride.aboard, c.aboard = ride.aboard-1, c.aboard-1
	switch err := r.ctx.Err(); {
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		l.waits.remove(r)
	case r.waits:
		r.hasty = true
		ride.hasty++
		if ride.aboard == 0 && !sent && !ride.pass.Probes() {
			ride.span.end() // which may wait for a connection: nothing of it is to be sent any more, but by the only one that asks after a rest
		}
	default:
		l.overdue(ride, r)
	}
	l.deserted(ride)
}

// overdue says that the budget of a rider has ended. That says something of the server only where it has answered nobody since the rider came: else he has waited for others.
func (l *lane) overdue(ride *ride, r *rider) {
	if l.server.Answers() == r.answers {
		ride.report(errOverdue)
	}
	l.release(ride)
}

// deserted gives up a ride that has lost all of its riders. It goes on as long as it is to say how the server does.
func (l *lane) deserted(ride *ride) {
	if ride.aboard > 0 {
		return
	}
	if ride.hasty == 0 {
		ride.span.end()
		ride.report(cmp.Or(ride.failure, context.Canceled))
	}
	l.release(ride)
}

// errOverdue is what becomes of a ride that a caller's budget did not suffice for.
var errOverdue = meaning{class: store.Indeterminate}.fail(rediscall.ErrBudget)
