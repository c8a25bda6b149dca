// Package simulation decides traffic by limits as the limiter would: by the steps of the in-process store, under the
// traffic's own clock.
package simulation

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
	"github.com/rlgen/rlgen/rules"
)

// Simulation is what candidates do to the same calls. The zero Simulation is not valid; [New] makes one.
type Simulation struct {
	Runs  []*Run
	Calls int64
	// First and Last are when the first and the last call were made, µs since 1970.
	First, Last int64
	// Bins has the course of the calls.
	Bins Bins

	ahead  fetcher
	limits [rules.Lock + 1]int // of all runs, by their kinds
	all    traffic.Name        // who everybody is to a limit of all callers
}

// New returns a simulation of candidates, which have decided nothing yet.
func New(candidates ...Candidate) (*Simulation, error) {
	if len(candidates) == 0 {
		return nil, errors.New("no limits, want some")
	}
	s := &Simulation{}
	for _, c := range candidates {
		run, err := s.newRun(c)
		if err != nil {
			return nil, err
		}
		s.Runs = append(s.Runs, run)
	}
	s.Bins.runs = s.Runs
	return s, nil
}

// Run decides all calls of source. After each of some ten thousand it calls progress, if that is not nil.
func (s *Simulation) Run(source traffic.Source, progress func()) error {
	calls := make([]traffic.Call, atOnce)
	for batches := 1; ; batches++ {
		n, err := next(source, calls)
		s.ahead.fetch(calls[:n], &s.Runs[0].cells)
		for i := range calls[:n] {
			if err := s.decide(&calls[i]); err != nil {
				return err
			}
		}
		source.Decided(s.Last)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case progress != nil && batches%(1<<14/atOnce) == 0:
			progress()
		}
	}
}

// atOnce is how many calls are read before they are decided.
const atOnce = 128

// next fills in the next calls of source, and returns how many there are before its end or an error.
func next(source traffic.Source, calls []traffic.Call) (int, error) {
	for i := range calls {
		if err := source.Next(&calls[i]); err != nil {
			return i, err
		}
	}
	return len(calls), nil
}

func (s *Simulation) decide(call *traffic.Call) error {
	if s.Calls == 0 {
		s.First = call.At
	}
	if call.At < s.Last {
		return fmt.Errorf("a call of %v behind one of %v, want calls in the order of their times", call.Time(), time.UnixMicro(s.Last).UTC())
	}
	s.Calls++
	s.Last = call.At
	bin := s.Bins.at(call.At)
	bin.Calls++
	for i, run := range s.Runs {
		if run.decide(call, bin.Levels[i]) {
			bin.Allowed[i]++
		}
	}
	return nil
}

// Counts says what of calls the limits count by: which of address, user and key.
func (s *Simulation) Counts() (columns []string) {
	for _, run := range s.Runs {
		for _, l := range run.Limits {
			if l.Kind != rules.Global && !slices.Contains(columns, column(l.Kind)) {
				columns = append(columns, column(l.Kind))
			}
		}
	}
	return columns
}

// Candidate is limits that a call must all pass.
type Candidate struct {
	// Name is what reports call it.
	Name   string
	Policy *rules.Policy
	// Assumed says of what the traffic does not tell what is taken instead.
	Assumed []string
}

// Parse returns the candidate of directives, without the //ratelimit: before them, for callers on a plan; "" for those on none.
func Parse(name, plan string, directives ...string) (Candidate, error) {
	p := &rules.Policy{Package: "simulate", Type: "simulate.Calls", Method: "Call"}
	for _, text := range directives {
		d, err := rules.Parse(rules.Namespace + text)
		if err != nil {
			return Candidate{}, fmt.Errorf("%q: %w", text, plain(err))
		}
		p.Limits = append(p.Limits, d.Limit)
	}
	return Of(name, plan, p)
}

// plain is an error of a directive as one of its text alone, which has nothing before its columns.
func plain(err error) error {
	var all rules.Errors
	if !errors.As(err, &all) {
		return err
	}
	var texts []string
	for _, e := range all {
		texts = append(texts, e.Msg)
	}
	return errors.New(strings.Join(texts, "; "))
}

// Of returns the candidate of a policy, for callers on a plan. Limits that hold something are left out, since traffic does not
// say how long a call takes; so are those that deny nobody, and those of other plans.
func Of(name, plan string, p *rules.Policy) (Candidate, error) {
	if err := p.Validate(); err != nil {
		return Candidate{}, err
	}
	if err := knowPlan(name, plan, p); err != nil {
		return Candidate{}, err
	}
	c := Candidate{Name: name}
	own := *p
	own.Limits = slices.Clone(p.Limits)
	for i := range own.Limits {
		own.Limits[i].Name = p.Name(i)
		own.Limits[i].Prefix, own.Limits[i].Bucket = p.Key(i)
		if l := &own.Limits[i]; l.Plan == "" || l.Plan == plan {
			c.assume(p.Name(i), l)
		}
	}
	own.Limits = slices.DeleteFunc(own.Limits, func(l rules.Limit) bool {
		return l.Kind.Holds() || l.Mode == rules.Shadow || l.Plan != "" && l.Plan != plan
	})
	if len(own.Limits) == 0 {
		return Candidate{}, fmt.Errorf("%s has no limit that counts calls over time, want one", name)
	}
	c.Policy = &own
	return c, nil
}

// knowPlan says of a policy with plans that plan is none of them.
func knowPlan(name, plan string, p *rules.Policy) error {
	var plans []string
	for _, l := range p.Limits {
		if l.Plan != "" && !slices.Contains(plans, l.Plan) {
			plans = append(plans, l.Plan)
		}
	}
	if len(plans) == 0 || slices.Contains(plans, plan) {
		return nil
	}
	return fmt.Errorf("%s has limits for the plans %s, found calls of plan %q, want one of those", name, strings.Join(plans, ", "), plan)
}

// assume takes note of what the traffic does not tell of a limit.
func (c *Candidate) assume(name string, l *rules.Limit) {
	say := func(format string, args ...any) {
		c.Assumed = append(c.Assumed, name+": "+fmt.Sprintf(format, args...))
	}
	if l.Kind.Holds() {
		say("left out, since traffic does not say how long a call takes")
		return
	}
	if l.Mode == rules.Shadow {
		say("left out, since it denies nobody")
		return
	}
	if l.By != "" {
		say("the id is the %s of a call, in place of by=%s", column(l.Kind), l.By)
	}
	if l.Cost != "" {
		say("the cost is that of a call, 1 if it has none, in place of cost=%s", l.Cost)
	}
	if l.When != "" {
		say("applies to every call, whatever when=%s says", l.When)
	}
	if l.Charge != rules.ChargeAlways {
		say("a call fails if it has a status of 400 or more, for charge=%s; one without a status succeeds", l.Charge)
	}
	if l.Wait > 0 && !l.Queues() {
		say("a denied call does not wait; those that would have had room within wait=%v are counted", l.Wait)
	}
}

// column is what of a call a limit of a kind counts by.
func column(k rules.Kind) string {
	switch k {
	case rules.IP:
		return "address"
	case rules.User:
		return "user"
	}
	return "key"
}
