package rules

import (
	"fmt"
	"testing"
	"time"
)

// bucketState is a bucket of a few tokens whose window has a few µs.
type bucketState struct{ lacks, since int64 }

// after is the bucket a µs later.
func (b bucketState) after(count int64, window time.Duration) bucketState {
	if b.lacks == 0 {
		return bucketState{}
	}
	if b.since++; b.since == window.Microseconds() {
		b = bucketState{lacks: max(0, b.lacks-count)}
	}
	if b.lacks == 0 {
		b.since = 0
	}
	return b
}

// denies goes through all that callers can do, and returns whether r ever denies what other allows.
func denies(l *Limit, r, other Rule) bool {
	type pair struct{ r, other bucketState }
	seen := map[pair]bool{{}: true}
	for todo := []pair{{}}; len(todo) > 0; {
		p := todo[0]
		todo = todo[1:]
		next := []pair{{p.r.after(r.Count, r.Window), p.other.after(other.Count, other.Window)}}
		if p.other.lacks < l.Capacity(other) {
			if p.r.lacks >= l.Capacity(r) {
				return true
			}
			next = append(next, pair{bucketState{p.r.lacks + 1, p.r.since}, bucketState{p.other.lacks + 1, p.other.since}})
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return false
}

// A rule of an interval bucket is refused beside another if, and only if, it never denies what that one allows.
func TestCoversInterval(t *testing.T) {
	for burst := range int64(6) {
		for i := range 4 * 5 * 4 * 5 {
			r := Rule{int64(i%4 + 1), time.Duration(i/4%5+1) * time.Microsecond}
			other := Rule{int64(i/20%4 + 1), time.Duration(i/80+1) * time.Microsecond}
			l := &Limit{Algorithm: TokenBucket, Refill: RefillInterval, Burst: burst}
			if r == other {
				continue
			}
			t.Run(fmt.Sprintf("%d in %v, %d in %v, burst %d", r.Count, r.Window, other.Count, other.Window, burst), func(t *testing.T) {
				if got, want := coversInterval(l, r, other) != "", !denies(l, r, other); got != want {
					t.Errorf("coversInterval = %v, want %v", got, want)
				}
			})
		}
	}
}
