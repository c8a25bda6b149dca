package redisstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// group is the indexes of a call's requests that one script can decide together.
type group []int

// split puts the requests into groups, in the order of their first requests. It returns nil if they are one group.
func (s *Store) split(requests []store.Request) []group {
	if s.group == nil || len(requests) < 2 {
		return nil
	}
	var groups []group
	var names []int
next:
	for i := range requests {
		name := s.group(requests[i].Key, i)
		for j := range names {
			if names[j] == name {
				groups[j] = append(groups[j], i)
				continue next
			}
		}
		names = append(names, name)
		groups = append(groups, group{i})
	}
	if len(groups) == 1 {
		return nil
	}
	return groups
}

// groups are those of the requests, even where they are one; none where there are no requests.
func (s *Store) groups(requests []store.Request) []group {
	if groups := s.split(requests); groups != nil || len(requests) == 0 {
		return groups
	}
	all := make(group, len(requests))
	for i := range all {
		all[i] = i
	}
	return []group{all}
}

// part is the decision on the requests of g alone, which are given back where another group denies.
func (d decision) part(g group) decision {
	requests := make([]store.Request, len(g))
	for i, at := range g {
		requests[i] = d.requests[at]
		requests[i].Returns = true
	}
	d.requests = requests
	return d
}

// giveBackTime is how long a give-back is tried, which goes on after its call where it must.
const giveBackTime = 10 * time.Second

// reserve decides d by flights that are under way, one for each group. Unless all of them allow, it gives back what any of
// them has charged, or may have: before it returns if the budget permits, afterwards if not.
//
// A denial by one is a denial, even where another cannot decide: the rules of that one are zero.
func (s *Store) reserve(ctx context.Context, limited term, d decision, groups []group, flights []*flight) (verdict, error) {
	verdicts := make([]verdict, len(groups))
	errs := make([]error, len(groups))
	for i, f := range flights {
		verdicts[i], errs[i] = f.wait(ctx, limited)
	}
	status, err := settle(verdicts, errs)
	if status != done || err != nil {
		s.release(ctx, limited, flights, verdicts)
	}
	if err != nil {
		return verdict{}, err
	}
	return merge(d, groups, verdicts, status), nil
}

// settle is the answer of all groups together.
func settle(verdicts []verdict, errs []error) (status, error) {
	answer := done
	var worst error
	for i, v := range verdicts {
		switch {
		case errs[i] != nil:
			if worst == nil || rank(errs[i]) > rank(worst) {
				worst = errs[i]
			}
		case v.status == denied:
			answer = denied
		case v.status == taken && answer == done:
			answer = taken
		}
	}
	if answer == denied && rank(worst) < rankMisconfigured {
		return denied, nil
	}
	return answer, worst
}

const rankMisconfigured = 4

// rank orders errors by how much the caller must know of them.
func rank(err error) int {
	var failed *store.Error
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &failed):
		return 3 // the context's
	case failed.Class == store.Misconfigured:
		return rankMisconfigured
	case failed.Class == store.Indeterminate:
		return 2
	}
	return 1
}

// merge is the verdict on d of the verdicts of its groups.
func merge(d decision, groups []group, verdicts []verdict, answer status) verdict {
	v := verdict{status: answer}
	if answer == done && d.dates() {
		v.ats = make([]int64, len(d.requests))
		for i, g := range groups {
			for _, at := range g {
				v.ats[at] = verdicts[i].at
			}
		}
	}
	if answer == done {
		v.notes = mergeNotes(len(d.requests), groups, verdicts)
	}
	if answer == taken || answer == done && !d.detail {
		return v
	}
	v.rules = make([]store.RuleOutcome, countRules(d.requests))
	first := make([]int, len(d.requests))
	for i, n := 0, 0; i < len(first); i++ {
		first[i] = n
		n += len(d.requests[i].Rules)
	}
	for i, g := range groups {
		rules := verdicts[i].rules
		for _, at := range g {
			if len(rules) == 0 {
				break
			}
			n := len(d.requests[at].Rules)
			copy(v.rules[first[at]:], rules[:n])
			rules = rules[n:]
		}
	}
	return v
}

// mergeNotes is those of n requests, nil if no group has any.
func mergeNotes(n int, groups []group, verdicts []verdict) (notes []int64) {
	for i, g := range groups {
		for j, note := range verdicts[i].notes {
			if notes == nil {
				notes = make([]int64, n)
			}
			notes[g[j]] = note
		}
	}
	return notes
}

// release gives back what flights have charged or may have. Where the answer has detail, the verdicts become those
// of after the give-back.
func (s *Store) release(ctx, limited context.Context, flights []*flight, verdicts []verdict) {
	backs := make([]*flight, len(flights))
	for i, f := range flights {
		backs[i] = s.undo(ctx, f)
	}
	for i, back := range backs {
		if back == nil {
			continue
		}
		select {
		case <-back.done:
			if back.err == nil && len(back.verdicts) == 1 {
				verdicts[i].rules = back.verdicts[0].rules
			}
		case <-limited.Done():
		}
	}
}

// undo gives back what f has charged or may have, once f has landed, so that it cannot be overtaken. It returns nil
// if there is nothing to give back.
func (s *Store) undo(ctx context.Context, f *flight) *flight {
	if f.landed() && !f.mayHaveCharged() {
		return nil
	}
	d := f.batch[0]
	d.op = giveBack
	back := s.flight(batch{d}, !d.forgets())
	go func() {
		defer close(back.done)
		<-f.done
		if f.mayHaveCharged() && back.settleOn(f) {
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.insists)
			defer cancel()
			s.fly(limited, back)
		}
	}()
	return back
}

// settleOn makes a give-back one of what f surely has charged, and of what can be given back whether it was charged or
// not: the admissions of sliding logs, by their base. It returns whether anything is left.
func (back *flight) settleOn(f *flight) bool {
	d := &back.batch[0]
	if f.err == nil {
		d.at, d.notes = f.verdicts[0].at, f.verdicts[0].notes
		return true
	}
	if d.forgets() {
		d.detail = false
		d.requests = slices.DeleteFunc(slices.Clone(d.requests), func(req store.Request) bool { return !remembers(&req) })
		back.call.MayRepeat = true
	}
	return len(d.requests) > 0
}

// mayHaveCharged says of a flight of one decision that has landed whether it has charged, or may have.
func (f *flight) mayHaveCharged() bool {
	if f.err == nil {
		return f.verdicts[0].status == done
	}
	var lost *store.Error
	return errors.As(f.err, &lost) && lost.Class == store.Indeterminate
}
