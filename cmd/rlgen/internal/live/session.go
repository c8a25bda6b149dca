package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/redisurl"
	"github.com/rlgen/rlgen/rules"
)

// Options are those of the limiter in the program whose counts are meant.
type Options struct {
	// IPv6Prefix is that of ratelimit.WithIPv6Prefix; 0 for its default.
	IPv6Prefix int
	// Secret is that of ratelimit.WithHashIDs; nil for ids in the clear.
	Secret []byte
	// Colocated is ratelimit.WithColocation.
	Colocated bool
	// LockPrefix is that of redislock.WithPrefix; empty for its default.
	LockPrefix string
	// Overrides are where overrides are, a later one in place of earlier ones: the paths of files, or [HashOfOverrides].
	Overrides []string
	// Lenient is for who looks at overrides, and changes them: they are not in force, and may be wrong.
	Lenient bool
	// OverridesKey is that of redisoverride.WithKey; empty for its default.
	OverridesKey string
	// Timeout is how long one question to Redis may take.
	Timeout time.Duration
}

// HashOfOverrides stands among the sources of overrides for the hash in Redis.
const HashOfOverrides = "redis"

// Session is the limits of a program over its Redis. [Open] makes it.
type Session struct {
	client   redis.UniversalClient
	locks    *redislock.Store
	limiter  *ratelimit.Limiter
	policies []*rules.Policy
	options  Options
}

// silent keeps what go-redis logs by itself, which may be anything, from whoever reads what is printed.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Open connects to a Redis, and prepares the limits of policies as their program does. Close ends it.
func Open(ctx context.Context, at Address, policies []*rules.Policy, o Options) (*Session, error) {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	client, err := reach(ctx, at, o.Timeout)
	if err != nil {
		return nil, err
	}
	s := &Session{client: client, policies: policies, options: o}
	if err = s.prepare(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// DefaultTimeout is how long one question to Redis may take unless [Options] say otherwise.
const DefaultTimeout = 5 * time.Second

// reach connects to a Redis, and finds out whether it answers, which says more of why it does not than what decides limits and tries again.
func reach(ctx context.Context, at Address, timeout time.Duration) (redis.UniversalClient, error) {
	redis.SetLogger(silent{})
	client, err := redisurl.Open(at.patient(max(1, int(timeout/time.Second))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgument, unreadable{err})
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := client.Ping(ctx).Err(); err != nil {
		client.Close()
		return nil, fmt.Errorf("the Redis cannot be asked: %w%s", err, at.likely(err))
	}
	return client, nil
}

// Close lets go of the connections.
func (s *Session) Close() {
	if s.locks != nil {
		s.locks.Close()
	}
	s.client.Close()
}

func (s *Session) prepare(ctx context.Context) error {
	counts, err := redisstore.New(s.client, redisstore.WithBudget(s.options.Timeout))
	if err != nil {
		return err
	}
	s.locks, err = redislock.New(s.client, redislock.WithBudget(s.options.Timeout), redislock.WithPrefix(cmp.Or(s.options.LockPrefix, redislock.DefaultPrefix)))
	if err != nil && s.options.LockPrefix != "" {
		return fmt.Errorf("%w: -lock-prefix: %w", ErrArgument, err)
	} else if err != nil {
		return err
	}
	opts := []ratelimit.Option{
		ratelimit.WithLocks(s.locks), ratelimit.WithInstances(1), ratelimit.WithoutDenyCache(),
		ratelimit.WithLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		ratelimit.WithIPv6Prefix(cmp.Or(s.options.IPv6Prefix, ratelimit.DefaultIPv6Prefix)),
	}
	if s.options.Secret != nil {
		opts = append(opts, ratelimit.WithHashIDs(s.options.Secret))
	}
	if s.options.Colocated {
		opts = append(opts, ratelimit.WithColocation())
	}
	if s.limiter, err = ratelimit.New(counts, opts...); err != nil {
		return err
	}
	for _, p := range s.policies {
		if _, err := s.limiter.Prepare(p); err != nil {
			return err
		}
	}
	if s.options.Lenient {
		return nil
	}
	return s.override(ctx)
}

// override makes the overrides hold that hold in the program.
func (s *Session) override(ctx context.Context) error {
	var layers, files [][]rules.Override
	for _, from := range s.options.Overrides {
		layer, err := s.layer(ctx, from)
		if err != nil {
			return err
		}
		if layers = append(layers, layer); from != HashOfOverrides {
			files = append(files, layer)
		}
	}
	err := s.limiter.Override(ctx, layers...)
	if err == nil {
		return nil
	}
	if _, alone := rules.Resolve(s.policies, files...); alone != nil {
		return wrong(err)
	}
	return err
}

func (s *Session) layer(ctx context.Context, from string) ([]rules.Override, error) {
	if from == HashOfOverrides {
		return readHash(ctx, s.client, s.HashKey())
	}
	list, err := ReadFile(from)
	return list, wrong(err)
}

// wrong makes an [ErrArgument] of what is wrong with a file that an argument names.
func wrong(err error) error {
	if err == nil || errors.Is(err, ErrArgument) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrArgument, err)
}

// Policies are those that the session was opened with, not to be changed.
func (s *Session) Policies() []*rules.Policy { return s.policies }

// Find returns the guard of a method.
func (s *Session) Find(method string) (*ratelimit.Guard, error) {
	guard, err := s.limiter.Find(method)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return guard, nil
}
