package redisstore

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

// errResting is the cause of a call that is not sent because those before it failed.
var errResting = errors.New("the server has not decided the last calls, and is not asked for a moment")

// breaker keeps calls from a server that does not decide, where each would wait for its budget in vain.
type breaker struct {
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
}

func newBreaker() breaker {
	return breaker{gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      rest,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= trip },
		IsSuccessful: func(err error) bool { return err == nil || classIs(err, store.Misconfigured) },
		IsExcluded:   func(err error) bool { return err != nil && !isStoreError(err) },
	})}
}

// permit lets one call ask, whose end is to be reported, or fails where the server is at rest. What a server refuses is as
// good as what it decides: it answers. A caller who goes away says nothing of the server.
func (b breaker) permit() (report func(error), err error) {
	report, err = b.circuit.Allow()
	if err != nil {
		return nil, meaning{class: store.Unavailable}.fail(errResting)
	}
	return report, nil
}

// ask decides, or fails at once where the server is at rest.
func (b breaker) ask(decide func() (verdict, error)) (verdict, error) {
	report, err := b.permit()
	if err != nil {
		return verdict{}, err
	}
	v, err := decide()
	report(err)
	return v, err
}

// resting says whether no call is to be sent.
func (b breaker) resting() bool { return b.circuit.State() == gobreaker.StateOpen }

func classIs(err error, class store.Class) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class == class
}

func isStoreError(err error) bool {
	var failed *store.Error
	return errors.As(err, &failed)
}
