package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// filled measures a log as together does, but of ids that have called before, as those of a service have that runs: [together] begins with empty
// ones, and an id calls only a few times until it ends.
func filled(algorithm rules.Algorithm) contestant {
	return by(func(l *lab) (measurement, error) {
		s, err := redisstore.New(l.client(), redisstore.WithBudget(10*time.Second))
		if err != nil {
			return nil, err
		}
		call := take(context.Background(), s, asks(algorithm, twoRules), false)
		return func(span time.Duration) (sample, error) {
			if err := fill(s, algorithm); err != nil {
				return sample{}, err
			}
			return throughput(l, 64, span, call)
		}, nil
	})
}

// fill logs fifty calls of every id: ten at once, each ten seconds, until ten seconds ago.
func fill(s store.Store, algorithm rules.Algorithm) error {
	const callers = 64
	var wg sync.WaitGroup
	failed := make([]error, callers)
	for caller := range callers {
		wg.Go(func() {
			var out store.Outcome
			for id := caller; id < ids; id += callers {
				for ago := 50 * time.Second; ago > 0; ago -= 10 * time.Second {
					req := store.Request{Key: key(id), Algorithm: algorithm, Rules: twoRules[1:], Cost: 10, Ahead: -ago}
					err := s.Take(context.Background(), []store.Request{req}, false, &out)
					if err == nil && !out.Allowed {
						err = errors.New("calls of the past are denied, want them logged")
					}
					if failed[caller] = err; err != nil {
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}
