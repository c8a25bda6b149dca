package rediscall

import (
	"errors"
	"sync"
	"sync/atomic"
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
	pkg string // whose errors its errors are
	*pulse
}

// pulse is what a breaker knows of its server.
type pulse struct {
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	telling sync.Mutex  // held while the circuit is told of a call
	ailing  atomic.Bool // the circuit is not closed, or the last call that it was told of has failed
	glance  func(error) // the method of that name
}

// NewBreaker returns the breaker of a package's calls, before the first of them.
func NewBreaker(pkg string) Breaker {
	p := &pulse{circuit: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      rest,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= trip },
		IsSuccessful: func(err error) bool { return err == nil || refuses(err) },
		IsExcluded:   func(err error) bool { return err != nil && !errors.As(err, new(*store.Error)) },
	})}
	p.glance = p.glanceAt
	return Breaker{pkg, p}
}

// Permit lets one call ask, whose end is to be reported, or fails where the server is at rest. What a server refuses is as
// good as what it decides: it answers. A caller who goes away says nothing of the server.
func (b Breaker) Permit() (report func(error), err error) {
	if !b.ailing.Load() {
		return b.glance, nil
	}
	circuit, err := b.circuit.Allow()
	if err != nil {
		return nil, b.Rest()
	}
	return func(err error) { b.tell(circuit, err) }, nil
}

// glanceAt is told how a call ended that began while the server did well. The circuit need not know of the many that succeed.
func (p *pulse) glanceAt(err error) {
	if err == nil && !p.ailing.Load() || p.circuit.State() != gobreaker.StateClosed {
		return
	}
	if report, refused := p.circuit.Allow(); refused == nil {
		p.tell(report, err)
	}
}

func (p *pulse) tell(report func(error), err error) {
	p.telling.Lock()
	defer p.telling.Unlock()
	report(err)
	p.ailing.Store(p.circuit.State() != gobreaker.StateClosed || p.circuit.Counts().ConsecutiveFailures > 0)
}

// Resting says whether no call is to be sent.
func (b Breaker) Resting() bool { return b.ailing.Load() && b.circuit.State() == gobreaker.StateOpen }

// Rest is the error of a call that is not sent because the server is at rest.
func (b Breaker) Rest() error { return Fail(b.pkg, store.Unavailable, ErrResting, "") }

func refuses(err error) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class == store.Misconfigured
}
