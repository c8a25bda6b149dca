package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// Store is a [lock.Store] in Redis. It is safe for concurrent use; the client is its owner's. The zero Store is not valid;
// [New] makes one.
type Store struct {
	client            redis.UniversalClient
	prompt            *rediscall.Prompt // the client, giving up on a reply within the budget; nil if it cannot
	locks, semaphores scripts
	budget            time.Duration
	prefix            string
	inbox             inbox
	keyring           keyring
	terms             terms
	silent            atomic.Bool // the last call that has ended got no answer in time
	servers           *rediscall.Servers

	behind  sync.WaitGroup // what goes on after its call
	leavers leavers
}

var _ lock.Store = (*Store)(nil)

// New returns a store that asks client. It sends nothing.
func New(client redis.UniversalClient, opts ...Option) (*Store, error) {
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("redislock: client is nil, want a *redis.Client or *redis.ClusterClient")
	}
	if _, ok := client.(*redis.Ring); ok {
		return nil, errors.New("redislock: client is a *redis.Ring, want a *redis.Client or *redis.ClusterClient: " +
			"a ring moves names to other servers while one does not answer, and they are then held twice")
	}
	locks, semaphores := texts()
	s := &Store{
		client:     client,
		locks:      newScripts(locks),
		semaphores: newScripts(semaphores),
		budget:     DefaultBudget,
		prefix:     DefaultPrefix,
		servers:    rediscall.NewServers("redislock", client),
	}
	for _, o := range opts {
		if err := o.apply(s); err != nil {
			return nil, err
		}
	}
	if c, ok := client.(*redis.Client); ok {
		s.prompt = rediscall.NewPrompt(c, longest(s.budget)/2) // a call that is sent twice without a reply is over
	}
	s.inbox.init(s.prefix)
	return s, nil
}

// Close ends the listening that the first waiting began, and waits, for ten seconds at most, for the releases that
// go on after their calls. Holds are not released: Unlock them before. Nobody may wait afterwards.
func (s *Store) Close() error {
	err := s.inbox.close()
	s.behind.Wait()
	if s.prompt != nil {
		s.prompt.GiveBack()
	}
	return err
}

func (s *Store) scriptsOf(c *lock.Claim) *scripts {
	if c.Limit == 0 {
		return &s.locks
	}
	return &s.semaphores
}

// Acquire waits for its turn where this process asks the server for as much already as three quarters of the client's connections carry, but for a further eighth, which
// is for claims that are Next: for its Patience, and for no longer than the
// budget, and then fails with [lock.ErrCrowded]. Once it is its turn, it returns within the budget, or once ctx is done. Where that leaves open whether c is met, it is released once
// that is known. After five acquisitions in a row that a server has not decided within the budget, be it that their contexts have ended by a deadline before, it is not asked for 250 ms, and then by one at a time until it
// decides again: until then Acquire of its names fails at once as [store.Unavailable].
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (a lock.Answer, err error) {
	if err := s.check(ctx, c); err != nil {
		return lock.Answer{}, err
	}
	k := s.keys(&c)
	server := s.server(k)
	if server.Resting() {
		return lock.Answer{}, server.Rest()
	}
	urgent := c.Next
	defer func() {
		if err != nil && urgent && !c.Next { // the waking is worth as much at the next asking
			s.inbox.wake(c.Waiter)
		}
	}()
	var place rediscall.Place
	if c.Outer == "" { // who holds it already is not to wait for those who do not
		if place, err = server.Enter(ctx, s.patienceOf(c), &urgent, s.inbox.woken(c.Waiter)); err != nil {
			if errors.Is(err, rediscall.ErrBudget) && s.patienceOf(c) < s.budget { // which a server that is well may take to answer those before it
				err = rediscall.ErrCrowded
			}
			return lock.Answer{}, refusal(server, err)
		}
	}
	pass, err := server.Permit()
	if err != nil {
		place.Leave()
		return lock.Answer{}, err
	}
	answers := server.Answers()
	ends := time.Now().Add(s.budget)
	a, f, err := s.acquire(ctx, c, k, place)
	err = server.Crowded(err, answers)
	if f.outlasts && errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(*store.Error)) {
		pass.ReportLater(f.done, f.told, ends)
	} else {
		pass.Report(err)
	}
	return a, refusal(server, err)
}

// patienceOf is how long c waits for its turn.
func (s *Store) patienceOf(c lock.Claim) time.Duration {
	if c.Patience > 0 {
		return min(c.Patience, s.budget)
	}
	return s.budget
}

// refusal is err as Acquire returns it.
func refusal(of *rediscall.Server, err error) error {
	if errors.Is(err, rediscall.ErrCrowded) {
		return fmt.Errorf("redislock: %w: %w", lock.ErrCrowded, err)
	}
	return of.At(err)
}

// server is the one that has the keys, which all lie in one slot.
func (s *Store) server(k *keys) *rediscall.Server { return s.servers.Of(k.held.(string)) }

// acquire asks, by the flight that it returns, and leaves place once the server has answered, or the client has given up on that.
func (s *Store) acquire(ctx context.Context, c lock.Claim, k *keys, place rediscall.Place) (lock.Answer, *flight, error) {
	s.inbox.stand(c.Waiter)
	var words []any
	switch {
	case c.Limit > 0:
		words = []any{nil, nil, 2, k.held, k.queue, c.ID, c.Cost, c.Limit, c.Lease.Milliseconds(), waiterOf(c)}
		if c.Last {
			words = append(words, 1)
		}
	case c.Outer != "":
		words = []any{nil, nil, 3, k.held, k.token, k.queue, c.ID, c.Lease.Milliseconds(), c.Waiter, c.Outer}
	case c.Last:
		words = []any{nil, nil, 3, k.held, k.token, k.queue, c.ID, c.Lease.Milliseconds(), c.Waiter, "", 1}
	case c.Waiter != "":
		words = []any{nil, nil, 3, k.held, k.token, k.queue, c.ID, c.Lease.Milliseconds(), c.Waiter}
	case c.Lease == lock.DefaultLease:
		words = []any{nil, nil, 3, k.held, k.token, k.queue, c.ID}
	default:
		words = []any{nil, nil, 3, k.held, k.token, k.queue, c.ID, c.Lease.Milliseconds()}
	}
	f := s.launch(ctx, s.scriptsOf(&c).acquire, words...)
	reply, err := f.wait(ctx)
	s.vacate(place, f)
	if err == nil {
		if c.Last {
			s.inbox.leave(c.Waiter)
		}
		a, err := answer(c, reply)
		return a, f, err
	}
	if open(err) {
		s.settle(f, c)
	}
	return lock.Answer{}, f, err
}

// vacate leaves place once f has landed: until then it takes a connection.
func (s *Store) vacate(place rediscall.Place, f *flight) {
	if f.landed() {
		place.Leave()
		return
	}
	s.behind.Go(func() {
		<-f.done
		place.Leave()
	})
}

// check refuses what cannot be asked.
func (s *Store) check(ctx context.Context, c lock.Claim) error {
	if err := store.Ended(ctx); err != nil {
		return fmt.Errorf("redislock: %w", err)
	}
	if err := lock.Validate(c); err != nil {
		return rediscall.Fail("redislock", store.Misconfigured, err, "")
	}
	return nil
}

// answer reads the reply of an acquiring script.
func answer(c lock.Claim, reply []int64) (lock.Answer, error) {
	if len(reply) == 1 && c.Limit == 0 {
		return lock.Answer{Held: true, Token: reply[0], Left: c.Lease}, nil
	}
	want := 3
	if c.Limit == 0 {
		want = 4
	}
	if len(reply) != want {
		return lock.Answer{}, errReply(reply)
	}
	a := lock.Answer{
		Held:  reply[0] == 1,
		Left:  time.Duration(reply[want-2]) * time.Millisecond,
		First: reply[want-1] == 1,
	}
	if c.Limit == 0 {
		a.Token = reply[1]
	}
	return a, nil
}

func errReply(reply []int64) error {
	return rediscall.Fail("redislock", store.Misconfigured, fmt.Errorf("reply %v", reply), "nothing between client and server may change replies")
}

// Renew returns within the budget, or once ctx is done. It asks even where Acquire would not, for nobody waits for it.
func (s *Store) Renew(ctx context.Context, c lock.Claim) (lock.Answer, error) {
	asked := c
	if c.Lease == 0 {
		asked.Lease = lock.MinLease
	}
	if err := s.check(ctx, asked); err != nil {
		return lock.Answer{}, err
	}
	k := s.keys(&c)
	words := []any{nil, nil, 2, k.held, k.token, c.ID, c.Lease.Milliseconds()}
	if c.Limit > 0 {
		words = []any{nil, nil, 1, k.held, c.ID, c.Cost, c.Lease.Milliseconds()}
	}
	reply, err := s.launch(ctx, s.scriptsOf(&c).renew, words...).wait(ctx)
	if err == nil && len(reply) != 2 {
		err = errReply(reply)
	}
	if err != nil {
		return lock.Answer{}, err
	}
	return lock.Answer{Held: reply[0] == 1, Left: time.Duration(reply[1]) * time.Millisecond}, nil
}

// Release returns within the budget, or once ctx is done, and fails at once where [Store.Acquire] would not ask. Where that leaves open
// whether c is released, it is tried on for ten seconds.
//
// A lock's hold is ended by one command without a script, unless others of the process are known to wait. The script follows where that tells of somebody who waits,
// or that the hold is not there: the reply to an earlier sending may be lost, and have told so.
func (s *Store) Release(ctx context.Context, c lock.Claim) (bool, error) {
	k := s.keys(&c)
	if server := s.server(k); server.Resting() {
		s.leave(c, settleTimeout)
		return false, server.Rest()
	}
	if c.Limit > 0 || c.Waiter != "" || lock.Awaited(s, c) {
		return s.finish(ctx, c, s.launch(ctx, s.scriptsOf(&c).release, s.releaseWords(c)...))
	}
	f := s.launch(ctx, rediscall.Script{}, "hdel", k.held, c.ID, "!"+c.ID)
	fields, err := s.conclude(ctx, c, f)
	if err != nil || fields == 1 {
		return err == nil, err
	}
	held, err := s.finish(ctx, c, s.launch(ctx, s.locks.release, s.releaseWords(c)...))
	return held || err == nil && (fields > 0 || f.call.Repeated()), err
}

// finish is Release by a script that is under way.
func (s *Store) finish(ctx context.Context, c lock.Claim, f *flight) (bool, error) {
	held, err := s.conclude(ctx, c, f)
	return err == nil && (held == 1 || f.call.Repeated()), err
}

// conclude returns the one integer that a release answers with, and settles c where there is none.
func (s *Store) conclude(ctx context.Context, c lock.Claim, f *flight) (int64, error) {
	reply, err := f.wait(ctx)
	if err == nil && len(reply) != 1 {
		err = errReply(reply)
	}
	if err != nil {
		if mayPass(err) {
			s.settle(f, c)
		}
		return 0, err
	}
	return reply[0], nil
}

// releaseWords are those of the script that releases c, and more of the same name.
func (s *Store) releaseWords(c lock.Claim, more ...lock.Claim) []any {
	k := s.keys(&c)
	words := []any{nil, nil, 2, k.held, k.queue}
	all := append([]lock.Claim{c}, more...)
	if c.Limit > 0 {
		words = append(words, slices.MaxFunc(all, func(a, b lock.Claim) int { return cmp.Compare(a.Limit, b.Limit) }).Limit)
	}
	for _, c := range all {
		if words = append(words, c.ID); c.Limit > 0 {
			words = append(words, c.Cost)
		}
		words = append(words, waiterOf(c))
	}
	return words
}

// waiterOf is how c's waiter is named in its queue.
func waiterOf(c lock.Claim) string {
	if c.Limit == 0 || c.Waiter == "" {
		return c.Waiter
	}
	return c.Waiter + "/" + strconv.FormatInt(c.Cost, 10)
}

// open says whether an error leaves open what became of a claim.
func open(err error) bool {
	var failed *store.Error
	return !errors.As(err, &failed) || failed.Class == store.Indeterminate
}

// mayPass says whether an error may pass without anybody mending anything.
func mayPass(err error) bool {
	var failed *store.Error
	return !errors.As(err, &failed) || failed.Class != store.Misconfigured
}
