package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/redis/go-redis/v9"

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

	clock func() time.Time // replaces the server's clock where the script is a test's; nil otherwise
}

var _ store.Store = (*Store)(nil)

// New returns a store that asks client. It sends nothing.
func New(client redis.UniversalClient, opts ...Option) (*Store, error) {
	s := &Store{
		client: client,
		script: newScript(assemble()),
		budget: DefaultBudget,
		base:   randomBase,
	}
	if v := reflect.ValueOf(client); client == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("redisstore: client is nil, want a *redis.Client, *redis.ClusterClient or *redis.Ring")
	}
	switch client.(type) {
	case *redis.ClusterClient:
		s.group = func(key string, _ int) int { return slot(key) }
	case *redis.Ring:
		s.group = func(_ string, i int) int { return i }
	}
	for _, o := range opts {
		if err := o.apply(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// A base has 14 digits, so that the member of an admission of cost 1 is an integer of few bytes, and up to 9,223
// units of an admission have members that are integers of 64 bits.
const (
	minBase = 1e13
	maxBase = 1e14
)

func randomBase() uint64 { return minBase + rand.Uint64N(maxBase-minBase) }

// Take decides one call, in one script where the keys permit it. It returns within the budget, or once ctx is done.
// Where ctx or the budget ends it, the call may yet be charged.
func (s *Store) Take(ctx context.Context, requests []store.Request, detail bool) (store.Outcome, error) {
	if err := validate(requests); err != nil {
		return store.Outcome{}, misconfigured(err)
	}
	if ctx.Err() != nil {
		return store.Outcome{}, expired(ctx, false)
	}
	if len(requests) == 0 {
		return store.Outcome{Allowed: true}, nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, s.budget, errBudget)
	defer cancel()
	for {
		d := decision{op: take, detail: detail, base: s.base(), requests: requests}
		v, err := s.decide(ctx, limited, d)
		if err != nil {
			return store.Outcome{}, err
		}
		if v.status != taken {
			return d.outcome(v), nil
		}
	}
}

// decide decides d, split where its keys are of several groups. limited is ctx within the budget.
func (s *Store) decide(ctx, limited context.Context, d decision) (verdict, error) {
	if groups := s.split(d.requests); groups != nil {
		return s.reserve(ctx, limited, d, groups)
	}
	f := s.launch(limited, batch{d}, false)
	return f.wait(ctx, limited)
}

// outcome is a verdict as the store's answer.
func (d *decision) outcome(v verdict) store.Outcome {
	out := store.Outcome{Allowed: v.status == done, Rules: v.rules}
	if out.Rules == nil {
		out.Rules = make([]store.RuleOutcome, countRules(d.requests))
	}
	if out.Allowed {
		out.Receipt = store.Receipt{Requests: d.requests, ID: d.base}
	}
	return out
}

// GiveBack returns what receipt charged, even where ctx is done. It may be called again after an error, and returns
// within the budget.
func (s *Store) GiveBack(ctx context.Context, receipt store.Receipt) error {
	if receipt.ID == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeoutCause(ctx, s.budget, errBudget)
	defer cancel()
	var first error
	for _, f := range s.launchAll(limited, decision{op: giveBack, base: receipt.ID, requests: receipt.Requests}) {
		if _, err := f.wait(ctx, limited); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// launchAll launches d, or its parts where its keys are of several groups, to be repeated until there is an answer.
func (s *Store) launchAll(ctx context.Context, d decision) []*flight {
	groups := s.split(d.requests)
	if groups == nil {
		return []*flight{s.launch(ctx, batch{d}, true)}
	}
	flights := make([]*flight, len(groups))
	for i, g := range groups {
		flights[i] = s.launch(ctx, batch{d.part(g)}, true)
	}
	return flights
}
