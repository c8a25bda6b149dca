package redisstore

import "time"

// roster is the riders of a lane who wait for their answers, those first whose budgets end first: one timer ends the wait of all. It is
// used under the lane's mu.
type roster struct {
	first, last *rider
	timer       *time.Timer
	ends        time.Time // when the timer does, which is no later than the first budget; zero if it is not set
}

// newRoster makes a roster whose timer calls end.
func newRoster(end func()) roster {
	t := time.AfterFunc(time.Hour, end)
	t.Stop()
	return roster{timer: t}
}

// add puts a rider behind those whose budgets end no later than its own, which are all, but where a rider asks again.
func (w *roster) add(r *rider) {
	before := w.last
	for before != nil && before.budget.After(r.budget) {
		before = before.previous
	}
	r.waits, r.previous = true, before
	if before == nil {
		w.first, r.next = r, w.first
	} else {
		before.next, r.next = r, before.next
	}
	if r.next == nil {
		w.last = r
	} else {
		r.next.previous = r
	}
	if before == nil && (w.ends.IsZero() || r.budget.Before(w.ends)) {
		w.reset()
	}
}

// remove takes a rider out, if it is in.
func (w *roster) remove(r *rider) {
	if !r.waits {
		return
	}
	if r.previous == nil {
		w.first = r.next
	} else {
		r.previous.next = r.next
	}
	if r.next == nil {
		w.last = r.previous
	} else {
		r.next.previous = r.previous
	}
	r.waits, r.previous, r.next = false, nil, nil
}

// reset sets the timer for the first rider. It stays set when that one has an answer: whoever comes then has a budget that ends later.
func (w *roster) reset() {
	w.ends = time.Time{}
	if w.first != nil {
		w.ends = w.first.budget
		w.timer.Reset(time.Until(w.ends))
	}
}
