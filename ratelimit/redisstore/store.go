package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// Store is a [store.Store] in Redis. It is safe for concurrent use and needs no closing; the client is its owner's.
// The zero Store is not valid; [New] makes one.
type Store struct {
	client redis.UniversalClient
	script script
	budget time.Duration
	group  func(key string, i int) int // names the group of a call's i-th key; nil: all keys are one group
	base   func() uint64               // names an admission
	most   int                         // decisions that go to a server together
	lane   *lane                       // batches the decisions of callers; nil where each goes alone, or each server has its own

	insists time.Duration // on a give-back after its call

	servers *rediscall.Servers

	clock func() time.Time // replaces the server's clock where the script is a test's; nil otherwise
}

var _ store.Remote = (*Store)(nil)

// Remote marks the store as one that is worth not to be asked twice: see [store.Remote].
func (s *Store) Remote() {}

// Budget is how long a call lasts at most: [WithBudget].
func (s *Store) Budget() time.Duration { return s.budget }

// New returns a store that asks client. It sends nothing.
//
// Of a client that is none of go-redis's, nor embeds a *redis.Client, it is not known whether all keys are at one server: each key is then
// asked for by itself, which is right of any client and costs a script for each limit of a call.
//
// New refuses a *redis.Ring. A Ring moves the keys of a server that is down to other servers, where
// their counts start at 0: use a Cluster.
func New(client redis.UniversalClient, opts ...Option) (*Store, error) {
	s := &Store{
		client: client,
		script: newScript(assemble()),
		budget: DefaultBudget,
		most:   DefaultBatching,
		base:   randomBase,

		insists: giveBackTime,
	}
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("redisstore: client is nil, want a *redis.Client or *redis.ClusterClient")
	}
	s.reckon()
	switch client.(type) {
	case ofOneServer:
	case *redis.ClusterClient:
		s.group = func(key string, _ int) int { return slot(key) }
	case *redis.Ring:
		return nil, errors.New("redisstore: client is a *redis.Ring, want a *redis.Client or *redis.ClusterClient: " +
			"a Ring moves the keys of a server that is down to other servers, where their counts start at 0; use a Redis Cluster")
	default: // it may ask several servers
		s.group = func(_ string, i int) int { return i }
	}
	for _, o := range opts {
		if err := o.apply(s); err != nil {
			return nil, err
		}
	}
	if s.group == nil && s.most > 1 {
		s.lane = newLane(s, s.servers.Of(""))
	}
	return s, nil
}

// ofOneServer is a client that asks one server at a time: a *redis.Client, or what embeds one.
type ofOneServer interface{ Options() *redis.Options }

// reckon begins to take note of how the servers do.
func (s *Store) reckon() {
	s.servers = rediscall.NewServers("redisstore", s.client)
}

// A base has 14 digits, so that the member of an admission of cost 1 is an integer of few bytes, and up to 9,223
// units of an admission have members that are integers of 64 bits.
const (
	minBase = 1e13
	maxBase = 1e14
)

func randomBase() uint64 { return minBase + rand.Uint64N(maxBase-minBase) }

// Take decides one call, in one script where the keys permit it. It returns within the budget, or once ctx is done.
// Where ctx or the budget ends it, the call may yet be charged. After five calls in a row that a server has not decided within the budget, be it that their contexts have
// ended by a deadline before, it is not asked for 250 ms, and then by one call at a time until it decides again: until then calls that need it fail at once as [store.Unavailable].
func (s *Store) Take(ctx context.Context, requests []store.Request, detail bool, out *store.Outcome) error {
	if err := validate(requests); err != nil {
		return misconfigured(err)
	}
	if ctx.Err() != nil {
		return expired(ctx, false)
	}
	if len(requests) == 0 {
		*out = store.Outcome{Allowed: true}
		return nil
	}
	d := decision{op: take, detail: detail, requests: requests}
	if l := s.laneOf(&d); l != nil {
		return l.take(ctx, d, out)
	}
	limited, cancel := s.within(ctx)
	defer cancel()
	for {
		d.base = s.base()
		v, err := s.decide(ctx, limited, d)
		if err != nil {
			return err
		}
		if v.status != taken {
			d.answer(v, out)
			return nil
		}
	}
}

// laneOf is the lane in which d is decided, nil where it goes by itself: each server has one, as
// soon as it is known which has which key.
func (s *Store) laneOf(d *decision) *lane {
	if s.group == nil || s.most == 1 || d.requests[0].Key == "" || s.split(d.requests) != nil {
		return s.lane
	}
	server := s.server(d)
	if server.Name() == "" {
		return nil
	}
	return server.Companion(func() any { return newLane(s, server) }).(*lane)
}

// decide decides d, split where its keys are of several groups. limited is ctx within the budget.
func (s *Store) decide(ctx context.Context, limited term, d decision) (verdict, error) {
	groups := s.split(d.requests)
	var flights []*flight
	for _, g := range groups {
		flights = append(flights, s.flight(batch{d.part(g)}, false))
	}
	if groups == nil {
		flights = []*flight{s.flight(batch{d}, false)}
	}
	if err := permit(flights); err != nil {
		return verdict{}, err
	}
	for _, f := range flights {
		s.launch(limited, f)
	}
	if groups == nil {
		return flights[0].wait(ctx, limited)
	}
	return s.reserve(ctx, limited, d, groups, flights)
}

// answer writes a verdict as the store's answer, in the memory that out has.
func (d *decision) answer(v verdict, out *store.Outcome) {
	rules, charges := v.rules, out.Receipt.Charges[:0]
	if n := countRules(d.requests); rules == nil {
		rules = slices.Grow(out.Rules[:0], n)[:n]
		clear(rules)
	}
	*out = store.Outcome{Allowed: v.status == done, Rules: rules}
	if v.notes != nil {
		d.delay(rules, v.notes)
	}
	if out.Allowed {
		out.Receipt = store.Receipt{Requests: d.requests, ID: d.base}
	}
	if out.Allowed && d.dates() {
		out.Receipt.Charges = d.charge(v, slices.Grow(charges, len(d.requests))[:len(d.requests)])
	}
}

// charge makes charges what the verdict says of each request.
func (d *decision) charge(v verdict, charges []store.Charge) []store.Charge {
	for i := range charges {
		c := &charges[i]
		c.At, c.Note = v.at, 0
		if v.ats != nil {
			c.At = v.ats[i]
		}
		if v.notes != nil {
			c.Note = v.notes[i]
		}
		c.GivenBack.Store(false)
	}
	return charges
}

// delay sets what the queues among the requests say of the call.
func (d *decision) delay(answers []store.RuleOutcome, notes []int64) {
	for i := range d.requests {
		if d.requests[i].Queue {
			answers[0].Delay = wait(notes[i])
		}
		answers = answers[len(d.requests[i].Rules):]
	}
}

// GiveBack returns what receipt charged, even where ctx is done. It may be called again after an error, and returns
// within the budget; what lies at a server that is at rest fails at once. What a sliding log has recorded can be given back any number of times; of other limits, a receipt is used once,
// and again only where the server surely has not heard of it.
func (s *Store) GiveBack(ctx context.Context, receipt store.Receipt) error {
	if receipt.ID == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	limited, cancel := s.within(ctx)
	defer cancel()
	parts := s.returns(receipt)
	for i := range parts {
		parts[i].flight = s.flight(batch{parts[i].decision}, !parts[i].forgets() && !receipt.Partial)
		s.launchUnlessResting(limited, parts[i].flight)
	}
	var first error
	for i := range parts {
		_, err := parts[i].flight.wait(ctx, limited)
		if err != nil && first == nil {
			first = err
		}
		if unheard(err) {
			for _, c := range parts[i].charges {
				c.GivenBack.Store(false)
			}
		}
	}
	return first
}

// unheard says whether a sending failed in a way that the server surely knows nothing of it.
func unheard(err error) bool { return classIs(err, store.Unavailable) }

// returning is what one script gives back of a receipt.
type returning struct {
	decision
	charges []*store.Charge // that it uses
	flight  *flight
}

// returns is what is to be given back of a receipt, in one decision for each group of its keys.
func (s *Store) returns(receipt store.Receipt) []returning {
	var parts []returning
	for _, g := range s.groups(receipt.Requests) {
		part := returning{decision: decision{op: giveBack, base: receipt.ID, first: receipt.First}}
		for _, i := range g {
			req := receipt.Requests[i]
			if req.Cost == 0 {
				continue
			}
			note := int64(0)
			if dates(&req) && i < len(receipt.Charges) {
				c := &receipt.Charges[i]
				again := c.GivenBack.Swap(true)
				if again && !remembers(&req) {
					continue
				}
				part.charges = append(part.charges, c)
				part.at, note = c.At, c.Note
			}
			part.requests = append(part.requests, req)
			part.notes = append(part.notes, note)
		}
		if len(part.requests) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}
