package rediscall

import (
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	// trip is how many calls in a row must fail before the server is given a rest.
	trip = 5
	// rest is how long the server is then not asked. After it one call asks, while the others go on without: a server
	// that is back meets one call, and not all that were kept from it.
	rest = 250 * time.Millisecond
)

// ErrResting is the cause of a call that is not sent because those before it failed.
var ErrResting = errors.New("the server has not decided the last calls, and is not asked for a moment")

// Breaker keeps calls from a server that does not decide, where each would wait for its budget in vain. It is safe for concurrent
// use. The zero Breaker is not valid; [NewBreaker] makes one.
type Breaker struct {
	pkg     string // whose errors its errors are
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
}

// NewBreaker returns the breaker of a package's calls, before the first of them.
func NewBreaker(pkg string) Breaker {
	return Breaker{pkg, gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      rest,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= trip },
		IsSuccessful: func(err error) bool { return err == nil || refuses(err) },
		IsExcluded:   func(err error) bool { return err != nil && !errors.As(err, new(*store.Error)) },
	})}
}

// Permit lets one call ask, whose end is to be reported, or fails where the server is at rest. What a server refuses is as
// good as what it decides: it answers. A caller who goes away says nothing of the server.
func (b Breaker) Permit() (report func(error), err error) {
	report, err = b.circuit.Allow()
	if err != nil {
		return nil, b.Rest()
	}
	return report, nil
}

// Resting says whether no call is to be sent.
func (b Breaker) Resting() bool { return b.circuit.State() == gobreaker.StateOpen }

// Rest is the error of a call that is not sent because the server is at rest.
func (b Breaker) Rest() error { return Fail(b.pkg, store.Unavailable, ErrResting, "") }

func refuses(err error) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class == store.Misconfigured
}
