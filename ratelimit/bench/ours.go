package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/bench/orders"
	"github.com/rlgen/rlgen/ratelimit/internal/denycache"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

const (
	slidingLog  = rules.SlidingLog
	compactLog  = rules.CompactLog
	fixedWindow = rules.FixedWindow
)

// twoRules are what is decided for each id.
var twoRules = []rules.Rule{{Count: 10, Window: time.Second}, {Count: 100, Window: time.Minute}}

// wide lets every call of [leaves] pass.
var wide = []rules.Rule{{Count: 2 * logged, Window: time.Hour}}

// asks are the requests of all ids.
func asks(algorithm rules.Algorithm, rules []rules.Rule) [][]store.Request {
	all := make([][]store.Request, ids)
	for id := range all {
		all[id] = []store.Request{{Key: key(id), Algorithm: algorithm, Rules: rules, Cost: 1}}
	}
	return all
}

func key(id int) string { return "rl:user=" + strconv.Itoa(id) + ":orders.Orders-Create" }

// redisTake asks the Redis store.
func redisTake(algorithm rules.Algorithm, rules []rules.Rule) open {
	return func(l *lab) (call, error) {
		s, err := redisstore.New(l.client(), redisstore.WithBudget(10*time.Second))
		return take(context.Background(), s, asks(algorithm, rules), false), err
	}
}

// redisTold asks the Redis store what remains, too, as the peers are told whether they want to know it or not.
func redisTold(algorithm rules.Algorithm, rules []rules.Rule) open {
	return func(l *lab) (call, error) {
		s, err := redisstore.New(l.client(), redisstore.WithBudget(10*time.Second))
		return take(context.Background(), s, asks(algorithm, rules), true), err
	}
}

// redisRequest asks the Redis store within a context that can be cancelled, as those of requests are.
func redisRequest(l *lab) (call, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l.Cleanup(cancel)
	s, err := redisstore.New(l.client(), redisstore.WithBudget(10*time.Second))
	return take(ctx, s, asks(compactLog, twoRules), false), err
}

func take(ctx context.Context, s store.Store, asks [][]store.Request, detail bool) call {
	outcomes := sync.Pool{New: func() any { return new(store.Outcome) }}
	return func(id int) error {
		out := outcomes.Get().(*store.Outcome)
		defer outcomes.Put(out)
		return s.Take(ctx, asks[id], detail, out)
	}
}

// deniedHotKey asks for one id, of which Redis has denied more, as a limiter does that remembers it.
func deniedHotKey(l *lab) (call, error) {
	s, err := redisstore.New(l.client(), redisstore.WithBudget(10*time.Second))
	if err != nil {
		return nil, err
	}
	hot := asks(compactLog, []rules.Rule{{Count: 1, Window: time.Hour}})[:1]
	hot[0][0].Key += "@hot"
	one := take(context.Background(), denycache.New(s, nil), hot, false)
	return func(int) error { return one(0) }, one(0)
}

// wideOpen has room for all calls, beside a limit that denies them.
var wideOpen = rules.Limit{Kind: rules.Global, Rules: []rules.Rule{{Count: 1_000_000_000, Window: time.Second}}, Algorithm: rules.GCRA}

// deaf does nothing with what it is told.
type deaf struct{}

func (deaf) Observe(context.Context, *ratelimit.Decision, error) {}

// deniedUser asks the guard of a method, as a program does, for one user, of whom Redis has denied more. Where there are other limits, too, an observer is told of each call.
func deniedUser(others ...rules.Limit) open {
	return func(l *lab) (call, error) {
		s, err := redisstore.New(l.client(), redisstore.WithBudget(10*time.Second))
		if err != nil {
			return nil, err
		}
		opts := []ratelimit.Option{ratelimit.WithInstances(1)}
		if len(others) > 0 {
			opts = append(opts, ratelimit.WithObserver(deaf{}))
		}
		limiter, err := ratelimit.New(s, opts...)
		if err != nil {
			return nil, err
		}
		l.Cleanup(func() { limiter.Close(context.Background()) })
		g, err := limiter.Prepare(&rules.Policy{
			Package: "github.com/rlgen/rlgen/ratelimit/bench/orders", Type: "orders.Orders", Method: "Cancel",
			Limits: append([]rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}, Algorithm: compactLog}}, others...),
		})
		if err != nil {
			return nil, err
		}
		ctx := ratelimit.WithUser(context.Background(), "hot")
		ask := func(int) error {
			if _, err := g.Take(ctx); !errors.Is(err, ratelimit.ErrExceeded) {
				return err
			}
			return nil
		}
		return ask, ask(0)
	}
}

// prefetched asks the guard of a method with one hot limit, whose permits are taken ahead.
func prefetched(l *lab) (call, error) {
	s, err := redisstore.New(l.client(), redisstore.WithBudget(10*time.Second))
	if err != nil {
		return nil, err
	}
	limiter, err := ratelimit.New(s, ratelimit.WithInstances(1))
	if err != nil {
		return nil, err
	}
	l.Cleanup(func() { limiter.Close(context.Background()) })
	g, err := limiter.Prepare(&rules.Policy{
		Package: "github.com/rlgen/rlgen/ratelimit/bench/orders", Type: "orders.Orders", Method: "Search",
		Limits: []rules.Limit{{
			Kind: rules.Global, Rules: []rules.Rule{{Count: 100_000_000, Window: time.Second}}, Algorithm: rules.GCRA, Prefetch: 100 * time.Millisecond,
		}},
	})
	return func(int) error {
		_, err := g.Take(context.Background())
		return err
	}, err
}

// memTake asks the store in the process for one rule, for one caller, who is denied where the rule does not fit all calls.
func memTake(rule rules.Rule) open {
	return func(*lab) (call, error) {
		s, keys := memstore.New(), keys()
		ctx, out := context.Background(), new(store.Outcome)
		requests := []store.Request{{Algorithm: rules.GCRA, Rules: []rules.Rule{rule}, Cost: 1}}
		return func(id int) error {
			requests[0].Key = keys[id]
			if err := s.Take(ctx, requests, false, out); err != nil {
				return err
			}
			return allowed(rule, out.Allowed)
		}, nil
	}
}

// most is a rule that fits all calls of a run, and by which no id has all of its count back when it comes again.
var most = rules.Rule{Count: 100_000, Window: time.Hour}

// allowed fails where a call is denied that has to be allowed.
func allowed(rule rules.Rule, ok bool) error {
	if rule == most && !ok {
		return errDenied
	}
	return nil
}

var errDenied = errors.New("a call is denied that fits the rule")

// bareEvalsha sends the command that [redisTake] sends with one of them, as go-redis sends any.
func bareEvalsha(l *lab) (call, error) {
	words, err := wordsOf(l)
	client, ctx := l.client(), context.Background()
	return func(id int) error {
		args := append([]any(nil), words...)
		args[3] = key(id)
		return client.Process(ctx, redis.NewIntSliceCmd(ctx, args...))
	}, err
}

// wordsOf are the words of the command that [redisTake] sends with one of them.
func wordsOf(l *lab) (words []any, err error) {
	spied := l.client()
	spied.AddHook(spy{&words})
	s, err := redisstore.New(spied, redisstore.WithBudget(10*time.Second))
	if err != nil {
		return nil, err
	}
	err = take(context.Background(), s, asks(compactLog, twoRules), false)(0)
	return words, err
}

// spy keeps the words of the last script.
type spy struct{ words *[]any }

func (spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook { return next }

func (s spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); fmt.Sprint(args[0]) == "evalsha" {
			*s.words = append([]any(nil), args...)
		} else if fmt.Sprint(args[0]) == "eval" && len(args) > 3 {
			sum := redis.NewScript(fmt.Sprint(args[1])).Hash()
			*s.words = append([]any{"evalsha", sum}, args[2:]...)
		}
		return err
	}
}

// service does nothing.
type service struct{}

func (service) Create(context.Context, string) error { return nil }

// free lets every call pass, and does nothing else.
type free struct{}

func (free) Take(_ context.Context, requests []store.Request, _ bool, out *store.Outcome) error {
	*out = store.Outcome{Allowed: true, Rules: room}
	return nil
}

func (free) GiveBack(context.Context, store.Receipt) error { return nil }

func (free) Reset(context.Context, []store.Request) error { return nil }

func (free) Grant(context.Context, []store.Request) error { return nil }

func (f free) Peek(ctx context.Context, requests []store.Request, out *store.Outcome) error {
	return f.Take(ctx, requests, true, out)
}

func (free) Ban(context.Context, []store.Request, time.Duration) error { return nil }

var room = make([]store.RuleOutcome, 1)

// wrapped calls a method behind its generated wrapper.
func wrapped(*lab) (call, error) {
	l, err := ratelimit.New(free{})
	if err != nil {
		return nil, err
	}
	w := orders.NewRateLimitedOrders(service{}, l)
	ctx := context.Background()
	return func(int) error { return w.Create(ctx, "") }, nil
}

// guarded does by hand what [wrapped] does.
func guarded(*lab) (call, error) {
	l, err := ratelimit.New(free{})
	if err != nil {
		return nil, err
	}
	g := l.Guard(&rules.Policy{
		Package: "github.com/rlgen/rlgen/ratelimit/bench/orders", Type: "orders.Orders", Method: "Create",
		Limits: []rules.Limit{{
			Kind: rules.Global, Rules: []rules.Rule{{Count: 100_000_000, Window: time.Second}}, Algorithm: rules.GCRA,
		}},
	})
	var next orders.Orders = service{}
	ctx := context.Background()
	return func(int) error {
		if _, err := g.Take(ctx); err != nil {
			return err
		}
		return next.Create(ctx, "")
	}, nil
}
