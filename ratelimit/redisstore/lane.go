package redisstore

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	// aloft is how many rides of a lane are on their way at once: while the server executes one, the next is written.
	aloft = 2
	// Beside the number of decisions, which is the store's, these bound how long a ride keeps the server from others.
	mostKeys  = 128
	mostUnits = 1000 // of cost, for each of which a log has a record; of one decision, as many as it likes
)

// lane decides for callers who come while others are served: their decisions queue, and the next ride has all of them.
// Whoever comes to an empty lane goes at once. Nothing waits for company.
type lane struct {
	store  *Store
	server *rediscall.Server
	most   int  // decisions of a ride
	prompt bool // the client heeds the ends of contexts

	mu    sync.Mutex
	queue []*rider
	aloft int // rides on their way that somebody waits for
	late  int // rides whose callers drive them, and should have been back
}

func newLane(s *Store) *lane {
	l := &lane{store: s, server: s.servers.Of(""), most: s.most}
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

// rider is one caller's decision, on its way through a lane.
type rider struct {
	decision
	ctx      context.Context
	budget   time.Time // when it ends
	deadline time.Time // when it or the context ends
	answers  uint64    // that the server had given when the rider came

	state  atomic.Int32
	ride   *ride         // that it is on; under the lane's mu
	landed chan struct{} // gets one value when verdict and err are valid
	timer  *time.Timer
	alone  bool // the answer is that of a ride with nobody else

	verdict verdict
	err     error
}

const (
	queued  = iota // or on a ride that has not been written
	loaded         // written, or about to be: the server may have it
	arrived        // with an answer
	gone           // its caller left before it was loaded, and it never will be
	left           // its caller left when the server may have had it
)

var riders = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &rider{landed: make(chan struct{}, 1), timer: t}
}}

// newRider makes a rider whose budget begins now.
func newRider(ctx context.Context, d decision, budget time.Duration) *rider {
	r := riders.Get().(*rider)
	r.decision, r.ctx, r.budget = d, ctx, time.Now().Add(budget)
	r.deadline = r.budget
	if end, ok := ctx.Deadline(); ok && end.Before(r.deadline) {
		r.deadline = end
	}
	return r
}

// free gives back a rider whom no ride knows any more.
func (r *rider) free() {
	r.timer.Stop()
	r.decision, r.ctx, r.ride, r.verdict, r.err, r.alone = decision{}, nil, nil, verdict{}, nil, false
	riders.Put(r)
}

// take decides one call.
func (l *lane) take(ctx context.Context, d decision, out *store.Outcome) error {
	if l.server.Resting() {
		return l.server.Rest()
	}
	r := newRider(ctx, d, l.store.budget)
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
			r.free()
			return nil
		}
	}
}

// decide sends the rider along the lane, alone if it is to be, and returns its answer. After an error it may still be on a ride, and
// is not to be used again.
func (l *lane) decide(r *rider, alone bool) (verdict, error) {
	r.ride = nil
	r.state.Store(queued)
	ride := l.enter(r, alone)
	if ride != nil && ride.driven {
		return l.drive(ride, r)
	}
	if ride != nil {
		go l.run(ride)
	}
	r.timer.Reset(time.Until(r.budget))
	select {
	case <-r.landed:
		return r.verdict, r.err
	case <-r.ctx.Done():
	case <-r.timer.C:
	}
	if sent, ok := r.leave(); ok {
		overdue := r.ctx.Err() == nil
		l.leave(r, overdue)
		return verdict{}, expired(r.ctx, sent)
	}
	<-r.landed
	return r.verdict, r.err
}

// leave ends the wait of a rider's caller, unless there is an answer. With sent, the server may have the decision.
func (r *rider) leave() (sent, ok bool) {
	for {
		switch {
		case r.state.CompareAndSwap(queued, gone):
			return false, true
		case r.state.CompareAndSwap(loaded, left):
			return true, true
		case r.state.Load() == arrived:
			return false, false
		}
	}
}

// enter puts the rider into the queue, or on a ride of its own, which it returns.
func (l *lane) enter(r *rider, alone bool) *ride {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.aloft == aloft && !alone {
		l.queue = append(l.queue, r)
		return nil
	}
	ride := newRide(l)
	ride.board(r)
	ride.released = alone
	ride.driven = l.prompt && l.late == 0 && r.ctx.Done() == nil
	if !alone {
		l.aloft++
	}
	return ride
}

// drive makes a ride in the goroutine of its only rider, which spares it the way from one to another and back: nothing but the
// budget, which the client keeps, ends this call.
func (l *lane) drive(ride *ride, r *rider) (verdict, error) {
	end := time.AfterFunc(time.Until(r.budget), func() { l.overrun(ride) })
	ride.fly()
	end.Stop()
	if next := l.next(ride); next != nil {
		go l.run(next)
	}
	<-r.landed
	if errors.Is(r.err, context.Canceled) || errors.Is(r.err, context.DeadlineExceeded) {
		return verdict{}, expired(r.ctx, ride.call.Sent())
	}
	return r.verdict, r.err
}

// overrun ends the time of a ride whose caller drives it. Should the client not heed that, a hook of its for instance, then that caller
// waits for it, but no other, and nobody else drives until then.
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
		runtime.Gosched() // those who have their answers may come again
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
	return l.follow()
}

// release gives the place of a ride that is on its way to another. The lane's mu is held.
func (l *lane) release(r *ride) {
	if r.released {
		return
	}
	r.released = true
	if next := l.follow(); next != nil {
		go l.run(next)
	}
}

// follow puts what queues on a new ride in the place of one, or gives up the place.
func (l *lane) follow() *ride {
	if len(l.queue) == 0 {
		l.aloft--
		return nil
	}
	r := newRide(l)
	n := min(len(l.queue), l.most)
	r.riders, r.batch = slices.Grow(r.riders, n), slices.Grow(r.batch, n)
	for i, waiting := range l.queue {
		if !r.boards(waiting) {
			l.queue = slices.Delete(l.queue, 0, i)
			return r
		}
	}
	clear(l.queue)
	l.queue = l.queue[:0]
	if len(r.riders) == 0 {
		l.aloft--
		return nil
	}
	return r
}

// leave tells the ride of a rider that has left. One that is overdue, or has lost all of its riders, no longer keeps others waiting. That
// a rider is overdue says something of the server only where that has answered nobody since the rider came: else he has waited for others.
func (l *lane) leave(r *rider, overdue bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ride := r.ride
	if ride == nil {
		return
	}
	ride.aboard--
	if ride.aboard == 0 {
		ride.span.end()
	}
	if overdue && l.server.Answers() == r.answers {
		ride.report(errOverdue)
	} else if ride.aboard == 0 && !overdue {
		ride.report(context.Canceled)
	}
	if overdue || ride.aboard == 0 {
		l.release(ride)
	}
}

// errOverdue is what becomes of a ride that a caller's budget did not suffice for.
var errOverdue = meaning{class: store.Indeterminate}.fail(rediscall.ErrBudget)

// ride is one call of the script on the decisions of several riders.
type ride struct {
	lane   *lane
	call   rediscall.Call
	span   span
	riders []*rider // those that are loaded stand first
	keys   int
	units  int64

	batch batch // of those that are loaded
	words []any

	firstRider    [1]*rider // where there is no other, these take no memory of their own
	firstDecision [1]decision
	firstWords    [2]any

	driven bool // by its caller

	// Under the lane's mu.
	aboard   int            // riders that have not left
	released bool           // its place in the lane is another's
	over     bool           // it has landed
	late     bool           // its caller drives it and should have been back
	pass     rediscall.Pass // by which it asks, once it may
}

// newRide makes a ride. None is used again: hooks of the client may keep its command, which knows it.
func newRide(l *lane) *ride {
	r := &ride{lane: l}
	r.riders, r.batch = r.firstRider[:0], r.firstDecision[:0]
	return r
}

// boards takes a rider from the queue, and returns false if the ride is full. A rider that has left is passed over.
func (r *ride) boards(waiting *rider) bool {
	if waiting.state.Load() != queued {
		return true
	}
	keys, units := len(waiting.requests), waiting.units()
	if n := len(r.riders); n > 0 && (n == r.lane.most || r.keys+keys > mostKeys || r.units+units > mostUnits) {
		return false
	}
	r.board(waiting)
	return true
}

func (r *ride) board(waiting *rider) {
	waiting.ride = r
	if len(r.riders) == 0 {
		r.span.Context = waiting.ctx
	}
	r.span.include(waiting.deadline)
	r.riders = append(r.riders, waiting)
	r.aboard++
	r.keys += len(waiting.requests)
	r.units += waiting.units()
}

// units is the decision's cost.
func (d *decision) units() int64 {
	n := int64(0)
	for i := range d.requests {
		n += min(d.requests[i].Cost, mostUnits)
	}
	return n
}

// fly decides for all riders that do not leave before.
func (r *ride) fly() {
	s := r.lane.store
	pass, err := r.lane.server.Permit()
	if err != nil {
		r.land(nil, err)
		return
	}
	r.lane.mu.Lock()
	r.pass = pass
	r.lane.mu.Unlock()
	r.call.Package, r.call.Client, r.call.Cargo, r.call.Refusal = "redisstore", s.client, r, s.refusal
	r.call.Script = rediscall.Script{Evalsha: s.script.evalsha, Eval: s.script.eval}
	r.call.Words = r.firstWords[:]
	reply, err := r.call.Run(&r.span)
	var verdicts []verdict
	if err == nil {
		verdicts, err = r.decode(reply)
	}
	r.lane.mu.Lock()
	r.landed(err)
	r.lane.mu.Unlock()
	r.land(verdicts, err)
}

// decode reads the script's reply. There is none where the client never asked for the words of its command.
func (r *ride) decode(reply []int64) ([]verdict, error) {
	if len(r.batch) == 0 {
		return nil, errReply
	}
	return r.batch.decode(reply)
}

// landed tells the breaker how the ride has landed. Where its riders have left, it may have failed for that. The lane's mu is held.
func (r *ride) landed(err error) {
	if err != nil && r.aboard == 0 {
		err = context.Canceled
	}
	r.report(err)
}

// report tells the breaker what became of the ride, the first time. The lane's mu is held.
func (r *ride) report(err error) { r.pass.Report(err) }

// Load returns the words that decide for those who have not left.
func (r *ride) Load() []any {
	if r.words != nil {
		return r.words
	}
	n := 0
	for i, rider := range r.riders {
		if rider.state.CompareAndSwap(queued, loaded) {
			r.riders[n], r.riders[i] = rider, r.riders[n]
			r.batch = append(r.batch, rider.decision)
			n++
		}
	}
	if n > 0 {
		r.words = r.lane.store.args(r.batch)
	}
	return r.words
}

// Unload lets riders leave again as if nothing had been sent.
func (r *ride) Unload() {
	for _, rider := range r.riders[:len(r.batch)] {
		rider.state.CompareAndSwap(loaded, queued)
	}
	clear(r.batch)
	r.batch, r.words = r.batch[:0], nil
}

// land gives all riders that have not left their answers. Where the server refuses one of several for a key of its own, each has to
// ask alone.
func (r *ride) land(verdicts []verdict, err error) {
	if err != nil && len(r.riders) > 1 && (redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "CROSSSLOT")) {
		verdicts, err = slices.Repeat([]verdict{{status: failed}}, len(r.riders)), nil
	}
	alone := len(r.riders) == 1
	for i, rider := range r.riders {
		if !rider.arrive() {
			continue
		}
		rider.err, rider.alone = err, alone
		if i < len(verdicts) {
			rider.verdict = verdicts[i]
		}
		rider.landed <- struct{}{}
	}
}

// arrive keeps the rider's caller from leaving, and returns false if it has left.
func (r *rider) arrive() bool {
	for {
		state := r.state.Load()
		if state == gone || state == left {
			return false
		}
		if r.state.CompareAndSwap(state, arrived) {
			return true
		}
	}
}

// span is the context of a ride: that of its first rider, but for its end.
type span struct {
	context.Context
	deadline time.Time // the latest of its riders'

	mu    sync.Mutex
	done  chan struct{} // made when somebody asks for it
	ended bool
}

// include is called before the ride.
func (s *span) include(deadline time.Time) {
	if s.deadline.Before(deadline) {
		s.deadline = deadline
	}
}

func (s *span) Deadline() (time.Time, bool) { return s.deadline, true }

func (s *span) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done == nil {
		s.done = make(chan struct{})
		if s.ended {
			close(s.done)
		}
	}
	return s.done
}

func (s *span) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return context.Canceled
	}
	return nil
}

// end says that all riders have left.
func (s *span) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	if s.done != nil {
		close(s.done)
	}
}
