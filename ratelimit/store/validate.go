package store

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/rlgen/rlgen/rules"
)

// MaxWindow is the longest window that a store need decide: the longest of a rule.
const MaxWindow = 366 * 24 * time.Hour

// MaxAhead is the longest [Request.Ahead] that a store need decide.
const MaxAhead = 10 * time.Second

// Validate reports what makes the requests of one call undecidable for any store: a negative cost, no rules, a count or a window
// out of range, equal keys. The text names no key, for keys hold ids.
func Validate(requests []Request) error {
	if len(requests) == 1 && requests[0].plain() {
		return nil // most calls
	}
	for i := range requests {
		req := &requests[i]
		if !req.plain() {
			if err := req.validate(i); err != nil {
				return err
			}
		}
		for j := range i {
			if requests[j].Key == req.Key {
				return fmt.Errorf("limits %d and %d of the call have the same key, want distinct ones", j+1, i+1)
			}
		}
	}
	return nil
}

// plain says of most requests that validate would find nothing wrong with them: of those with one rule and no options. It looks no closer
// than that takes.
func (req *Request) plain() bool {
	options := req.Burst | req.Segments | int64(req.Start) | int64(req.Refill) | int64(req.Ahead) | int64(req.Ban) | req.After
	if options != 0 || req.Queue || req.Cost < 0 || len(req.Rules) != 1 {
		return false
	}
	r := &req.Rules[0]
	if r.Count < 1 || r.Window < time.Microsecond || r.Window > MaxWindow || r.Window%time.Microsecond != 0 {
		return false
	}
	if req.Algorithm.Logs() {
		return r.Count <= rules.MaxCount
	}
	high, low := bits.Mul64(uint64(r.Count), uint64(r.Window))
	return high == 0 && low < 1<<61
}

// validate checks request i of a call, but for its key.
func (req *Request) validate(i int) error {
	if req.Cost < 0 {
		return fmt.Errorf("limit %d of the call: cost %d, want 0 or more", i+1, req.Cost)
	}
	if len(req.Rules) == 0 {
		return fmt.Errorf("limit %d of the call has no rule, want one or more", i+1)
	}
	for _, r := range req.Rules {
		if r.Count < 1 || r.Window < time.Microsecond || r.Window%time.Microsecond != 0 {
			return fmt.Errorf("limit %d of the call: rule of %d in %v, want 1 or more in whole microseconds", i+1, r.Count, r.Window)
		}
		if r.Window > MaxWindow {
			return fmt.Errorf("limit %d of the call: rule of %d in %v, want at most %v: write a shorter window", i+1, r.Count, r.Window, MaxWindow)
		}
	}
	if err := req.validateCounter(); err != nil {
		return fmt.Errorf("limit %d of the call: %w", i+1, err)
	}
	return nil
}

// validateCounter checks the algorithm's own options, and what holds where each rule has one entry in the state, by its window.
func (req *Request) validateCounter() error {
	if req.Burst < 0 {
		return fmt.Errorf("burst %d, want 0 or more", req.Burst)
	}
	if req.Segments < 0 || req.Segments > rules.MaxSegments {
		return fmt.Errorf("%d segments, want 0 to %d", req.Segments, rules.MaxSegments)
	}
	if req.Start > rules.StartFirst {
		return fmt.Errorf("start %d, want %d or %d", req.Start, rules.StartClock, rules.StartFirst)
	}
	if req.Refill > rules.RefillInterval {
		return fmt.Errorf("refill %d, want %d or %d", req.Refill, rules.RefillSmooth, rules.RefillInterval)
	}
	if req.Ahead != 0 {
		if err := req.validateAhead(); err != nil {
			return err
		}
	}
	if err := req.validateBan(); err != nil {
		return err
	}
	if req.Queue {
		return req.validateQueue()
	}
	if req.Algorithm.Logs() {
		return req.validateLog()
	}
	for i, r := range req.Rules {
		if !req.fits(r) {
			return fmt.Errorf("%s of %d in %v, want a smaller product", req.Algorithm, req.Capacity(r), r.Window)
		}
		for _, other := range req.Rules[:i] {
			if other.Window == r.Window {
				return fmt.Errorf("two rules in %v, want one for each window", r.Window)
			}
		}
	}
	return nil
}

// validateLog checks that sums of a log's counts and costs are exact.
func (req *Request) validateLog() error {
	for _, r := range req.Rules {
		if r.Count > rules.MaxCount {
			return fmt.Errorf("%s of %d in %v, want a count of at most %d", req.Algorithm, r.Count, r.Window, rules.MaxCount)
		}
	}
	return nil
}

// validateAhead checks what is taken ahead, or after the fact: of windows that end and of queues, permits are of no use later.
func (req *Request) validateAhead() error {
	switch {
	case req.Queue || req.Algorithm == rules.FixedWindow || req.Refill == rules.RefillInterval:
		return errors.New("permits of a fixed window, a refill by interval or a queue taken ahead, want another algorithm")
	case req.Ahead < 0 && !req.Algorithm.Logs() || req.Ahead > MaxAhead || req.Ahead%time.Microsecond != 0:
		return fmt.Errorf("permits taken %v ahead, want 0s to %v in whole microseconds, or, of a log, less", req.Ahead, MaxAhead)
	}
	for _, r := range req.Rules {
		if req.Ahead > r.Window || req.Ahead < -r.Window {
			return fmt.Errorf("permits taken %v ahead of a rule of %d in %v, want no more than its window", req.Ahead, r.Count, r.Window)
		}
	}
	return nil
}

// validateBan checks when a key is banned, and for how long.
func (req *Request) validateBan() error {
	switch {
	case req.Ban == 0 && req.After == 0:
		return nil
	case req.Ban < time.Microsecond || req.Ban%time.Microsecond != 0 || req.Ban > rules.MaxBan:
		return fmt.Errorf("a ban of %v, want whole microseconds up to %v", req.Ban, rules.MaxBan)
	case req.After < 1 || req.After > rules.MaxAfter:
		return fmt.Errorf("a ban after %d denials, want 1 to %d", req.After, rules.MaxAfter)
	case req.Queue:
		return fmt.Errorf("a queue with a ban, want one of the two")
	}
	return nil
}

// ValidateBan reports what keeps the requests from being banned for d, as [Store.Ban] does.
func ValidateBan(requests []Request, d time.Duration) error {
	if d < 0 || d%time.Microsecond != 0 || d > rules.MaxBan {
		return fmt.Errorf("a ban of %v, want whole microseconds from 0s up to %v", d, rules.MaxBan)
	}
	for i := range requests {
		if requests[i].Ban == 0 {
			return fmt.Errorf("limit %d of the call has no ban, want one", i+1)
		}
	}
	return Validate(requests)
}

// fits says whether the numbers of a rule are exact to the microsecond.
func (req *Request) fits(r rules.Rule) bool {
	if req.Refill == rules.RefillInterval {
		return rules.IntervalFits(r.Count, req.Capacity(r), r.Window)
	}
	return req.Algorithm.Fits(r, req.Capacity(r))
}

// validateQueue checks what a queue asks for.
func (req *Request) validateQueue() error {
	switch r := req.Rules[0]; {
	case req.Algorithm != rules.LeakyBucket:
		return fmt.Errorf("a queue of algorithm %v, want %v", req.Algorithm, rules.LeakyBucket)
	case len(req.Rules) != 1:
		return fmt.Errorf("a queue of %d rules, want one", len(req.Rules))
	case req.Wait < 0 || req.Wait > rules.MaxWait:
		return fmt.Errorf("a queue with a wait of %v, want 0s to %v", req.Wait, rules.MaxWait)
	case !rules.QueueFits(r.Count, r.Window, req.Wait):
		return fmt.Errorf("a queue of %d in %v that waits %v, want a smaller product", r.Count, r.Window, req.Wait)
	}
	return nil
}

// ValidateGrant reports what keeps the requests from being granted their costs, as [Store.Grant] does.
func ValidateGrant(requests []Request) error {
	for i := range requests {
		req := &requests[i]
		most := int64(0)
		for _, r := range req.Rules {
			most = max(most, req.Capacity(r))
		}
		switch {
		case req.Queue:
			return fmt.Errorf("limit %d of the call is a queue, whose calls have been told when to go on, want another", i+1)
		case req.Cost < 1 || req.Cost > most:
			return fmt.Errorf("limit %d of the call: a grant of %d, want 1 to %d", i+1, req.Cost, most)
		}
	}
	return Validate(requests)
}
