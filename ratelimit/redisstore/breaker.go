package redisstore

import (
	"errors"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/store"
)

var errResting = rediscall.ErrResting

// breaker keeps decisions from a server that does not decide.
type breaker struct {
	rediscall.Breaker
	refusal *rediscall.Refusal
}

func newBreaker() breaker { return breaker{rediscall.NewBreaker("redisstore"), new(rediscall.Refusal)} }

// permit lets one call ask, whose end is to be reported, or fails where the server is at rest.
func (b breaker) permit() (report func(error), err error) { return b.Permit() }

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
func (b breaker) resting() bool { return b.Resting() }

func classIs(err error, class store.Class) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class == class
}
