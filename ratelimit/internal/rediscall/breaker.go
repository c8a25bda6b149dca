package rediscall

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	// trip is how many calls in a row must fail before the server is given a rest.
	trip = 5
	// rest is how long the server is then not asked. After it one call asks, while the others go on without: a server
	// that is back meets one call, and not all that were kept from it.
	rest = 250 * time.Millisecond
	// lingers is how long after its last rest a server that has not answered since, maybe because nobody asks it any more, is told of.
	lingers = time.Minute
)

var (
	// ErrResting is the cause of a call that is not sent because those before it failed.
	ErrResting = errors.New("the server has not decided the last calls, and is not asked for a moment")
	// ErrBudget is the cause of a call that ends because its budget does.
	ErrBudget = errors.New("no answer within the budget")
)

// breaker is what is known of how a server does.
type breaker struct {
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	telling sync.Mutex    // held while the circuit is told of a call
	opened  *atomic.Int64 // when its last rest began, ns since 1970
	ailing  atomic.Bool   // the circuit is not closed, or the last call that it was told of has failed
	answers atomic.Uint64 // calls that were decided in time
}

func newBreaker() breaker {
	opened := new(atomic.Int64)
	return breaker{opened: opened, circuit: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      rest,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= trip },
		IsSuccessful: func(err error) bool { return err == nil || refuses(err) },
		IsExcluded:   func(err error) bool { return err != nil && !tells(err) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				opened.Store(time.Now().UnixNano())
			}
		},
	})}
}

// refuses says whether an error is that of a server which answers, and wants somebody to mend something.
func refuses(err error) bool {
	var failed *store.Error
	return errors.As(err, &failed) && failed.Class == store.Misconfigured
}

// tells says whether an error says anything of the server: not that a caller has gone away, nor how one of the slots of a Cluster is.
func tells(err error) bool {
	return errors.As(err, new(*store.Error)) && (refuses(err) || !ofSlot(err))
}

// ofSlot says whether an error is that of one slot, of which the others know nothing.
func ofSlot(err error) bool {
	return slices.ContainsFunc([]string{"TRYAGAIN", "MOVED", "ASK", "CLUSTERDOWN Hash slot not served"}, func(prefix string) bool {
		return redis.HasErrorPrefix(err, prefix)
	})
}

// Pass lets one call ask a server. The zero Pass lets none, and its Report does nothing.
type Pass struct {
	server  *Server
	circuit func(error) // nil where the call begins while the server does well
	answers uint64      // that the server had given when the call began
}

// Permit lets one call ask, whose end is to be reported, or fails where the server is at rest.
func (s *Server) Permit() (Pass, error) {
	p := Pass{server: s, answers: s.Answers()}
	if !s.ailing.Load() {
		return p, nil
	}
	circuit, err := s.circuit.Allow()
	if err != nil {
		return Pass{}, s.Rest()
	}
	p.circuit = circuit
	return p, nil
}

// Probes says whether the call is the only one that asks the server after a rest, as long as its end is not reported.
func (p *Pass) Probes() bool {
	return p.server != nil && p.circuit != nil && p.server.circuit.State() == gobreaker.StateHalfOpen
}

// Report says how the call ended, the first time. What a server refuses is as good as what it decides: it answers. A caller who
// goes away says nothing of the server, nor does a deadline of his that is sooner than the budget, for which there is [Pass.ReportLater], nor a budget that has ended while
// the server answered others: then more was asked of the client than it has connections for.
func (p *Pass) Report(err error) {
	s := p.server
	if s == nil {
		return
	}
	p.server = nil
	switch {
	case err == nil:
		s.answered()
	case errors.Is(err, ErrBudget) && s.Answers() != p.answers:
		err = context.Canceled
	}
	if p.circuit != nil {
		s.learn(p.circuit, err)
		return
	}
	// The circuit need not know of the many that succeed.
	if err == nil && !s.ailing.Load() || s.circuit.State() != gobreaker.StateClosed {
		return
	}
	if circuit, refused := s.circuit.Allow(); refused == nil {
		s.learn(circuit, err)
	}
}

// ReportLater reports on a call whose caller has gone because his own deadline was sooner than the budget, which is the server's time: how it lands, which told says once
// landed is closed; or that nobody has answered it, once the budget ends. Where told is false, the call has failed because its caller has gone. ReportLater does not wait, and
// the pass is used up: its Report does nothing.
func (p *Pass) ReportLater(landed <-chan struct{}, told func() (err error, is bool), ends time.Time) {
	later := *p
	p.server = nil
	if later.server == nil {
		return
	}
	go func() {
		budget := time.NewTimer(time.Until(ends))
		defer budget.Stop()
		select {
		case <-landed:
			if err, is := told(); is {
				later.Report(err)
				return
			}
			<-budget.C
		case <-budget.C:
		}
		later.Report(Fail(later.server.servers.pkg, store.Indeterminate, ErrBudget, ""))
	}()
}

// learn tells the circuit how a call ended. Where the server gets a rest because it is silent, it may be that the client's connections are.
func (s *Server) learn(circuit func(error), err error) {
	s.tell(circuit, err)
	if silent(err) && s.Resting() {
		s.weed()
	}
}

func (b *breaker) tell(circuit func(error), err error) {
	b.telling.Lock()
	defer b.telling.Unlock()
	circuit(err)
	b.ailing.Store(b.circuit.State() != gobreaker.StateClosed || b.circuit.Counts().ConsecutiveFailures > 0)
}

// Answers is how many calls the server has decided before their budget ended, as they were reported.
func (b *breaker) Answers() uint64 { return b.answers.Load() }

// Resting says whether no call is to be sent.
func (b *breaker) Resting() bool { return b.ailing.Load() && b.circuit.State() == gobreaker.StateOpen }

// spared says whether no call is to be sent, or but one at a time since the last rest.
func (b *breaker) spared() bool {
	return b.ailing.Load() && b.circuit.State() != gobreaker.StateClosed && time.Since(time.Unix(0, b.opened.Load())) < lingers
}
