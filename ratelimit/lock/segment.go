package lock

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
)

// MaxSegments is into how many locks [NewSegmented] may split one.
const MaxSegments = 1024

// Segmented splits one lock over many items into a number of locks, each of which stands for some of the items: those who
// work on items of different segments do not wait for each other.
//
// That is sound where each piece of work touches the items that it locks and nothing else that the one lock guarded. It is not
// where the work reads or writes something of all items, such as their number, their sum or a file that holds them all; and not
// while some of a fleet lock with another number of segments, or without any.
type Segmented struct {
	locker   *Locker
	name     string
	segments int
}

// NewSegmented splits the lock of name into segments, from 1 to [MaxSegments]. All who lock it use the same number.
func NewSegmented(l *Locker, name string, segments int) (*Segmented, error) {
	if segments < 1 || segments > MaxSegments {
		return nil, fmt.Errorf("lock: %d segments, want 1 to %d", segments, MaxSegments)
	}
	return &Segmented{l, name, segments}, nil
}

// Segment is the segment of item: a number from 0 to segments-1, the same in each process and version.
func Segment(item string, segments int) int {
	h := fnv.New64a()
	h.Write([]byte(item))
	x := h.Sum64()
	x ^= x >> 32 // the low bits of FNV-1a alone spread short items unevenly
	return int(x % uint64(segments))
}

// Name is the name of the lock that stands for item.
func (s *Segmented) Name(item string) string {
	return s.name + "#" + strconv.Itoa(Segment(item, s.segments))
}

// Lock locks the segments of items, of each once, in an order that is the same for everybody, so that nobody waits for somebody who waits for
// him. If it fails, it holds none of them. It waits for each as [Locker.Lock] does.
//
// It must not be called with a context that holds a segment of the same lock: those might then come in another order.
func (s *Segmented) Lock(ctx context.Context, items ...string) (context.Context, Holds, error) {
	numbers := make([]int, len(items))
	for i, item := range items {
		numbers[i] = Segment(item, s.segments)
	}
	slices.Sort(numbers)
	inner, holds := ctx, Holds(nil)
	for _, n := range slices.Compact(numbers) {
		next, h, err := s.locker.Lock(inner, s.name+"#"+strconv.Itoa(n))
		if err != nil {
			return ctx, nil, errors.Join(err, holds.Unlock())
		}
		inner, holds = next, append(holds, h)
	}
	return inner, holds, nil
}

// Holds are the holds of several locks.
type Holds []*Hold

// Unlock lets go of all of them, the last one first.
func (hs Holds) Unlock() error {
	var errs []error
	for _, h := range slices.Backward(hs) {
		errs = append(errs, h.Unlock())
	}
	return errors.Join(errs...)
}
