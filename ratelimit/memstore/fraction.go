package memstore

// fraction is what the time at which a rule's count ends is rounded up by: it is over early units before, of which one step
// has count.
type fraction struct {
	early int64 // below count
	count int64 // by which early is to be understood
}

// of returns f as a rule of count understands it, to which the units of another are of no use.
func (f fraction) of(count int64) fraction {
	if f.count != count {
		return fraction{count: count}
	}
	return f
}

// move returns how many steps later it is over with more units, or fewer below 0, and what is left of the last step.
func (f fraction) move(units int64) (steps int64, left fraction) {
	units -= f.early
	steps = quotient(units, f.count)
	if units > steps*f.count {
		steps++
	}
	return steps, fraction{early: steps*f.count - units, count: f.count}
}

// quotient is n/d, without what is left, for d above 0. Below 2^53, where most numbers are, floats divide as exactly and in half the time: n/d is 1/d or more below
// the next whole number, and is rounded up by less.
func quotient(n, d int64) int64 {
	if -mostUnits < n && n < mostUnits {
		return int64(float64(n) / float64(d))
	}
	return n / d
}
