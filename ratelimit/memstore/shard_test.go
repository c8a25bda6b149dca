package memstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// Keys whose hashes are the same are not mistaken for each other, in whatever order they go.
func TestKeysOfOneHash(t *testing.T) {
	for gone := range 3 {
		var sh shard
		keys := []string{"a", "b", "c"}
		for i, key := range keys {
			c, expires := sh.fresh(0, 7, key, bucketSteps, 100)
			c.(*bucket).first.full, *expires = int64(i), 10
			if i == gone {
				*expires = 5
			}
		}
		sh.sweep(5, 100)
		for i, key := range keys {
			switch c, _ := sh.book(bucketSteps).get(7, key); {
			case i == gone && c != nil, i != gone && (c == nil || c.(*bucket).first.full != int64(i)):
				t.Errorf("after %s is dropped, get(%s) = %+v", keys[gone], key, c)
			}
		}
		if sh.sweep(10, 100); sh.len() != 0 {
			t.Errorf("%d keys are left of what has expired, want none", sh.len())
		}
	}
}

// All keys of a call are charged where they move each other, and none is in the way of the others where they drive each other out.
func TestKeysOfACallMoveEachOther(t *testing.T) {
	const keys = 6 * fewestSlots
	for _, most := range []int{1, 3, 1000} {
		var sh shard
		requests := make([]store.Request, keys)
		c := make(call, keys)
		for i := range c {
			requests[i] = store.Request{Key: string(rune('A' + i)), Rules: []rules.Rule{{Count: 5, Window: time.Second}}, Cost: int64(i%5) + 1}
			c[i] = place{req: &requests[i], hash: withHome(i, i), shard: &sh, steps: bucketSteps}
		}
		var out store.Outcome
		c.decide(0, true, most, &out)
		for i, answer := range out.Rules {
			if want := 5 - requests[i].Cost; !out.Allowed || most > keys && answer.Remaining != want {
				t.Fatalf("room for %d: key %d has %d left, want %d", most, i, answer.Remaining, want)
			}
		}
		if n := sh.len(); n != min(most, keys) {
			t.Errorf("%d keys are kept, want %d", n, min(most, keys))
		}
		c.peek(0, &out)
		for i, answer := range out.Rules {
			if want := 5 - requests[i].Cost; most > keys && answer.Remaining != want {
				t.Errorf("key %d has %d left later, want %d", i, answer.Remaining, want)
			}
		}
	}
}

// Keys that count otherwise are swept, too, and go where there is no room.
func TestKeysOfOtherSteps(t *testing.T) {
	var sh shard
	for i := range 20 {
		_, expires := sh.fresh(0, withHome(i, i), string(rune('a'+i)), slidingLogSteps, 100)
		*expires = int64(10 + i)
	}
	for i := range 20 {
		_, expires := sh.fresh(0, withHome(i, i), string(rune('a'+i)), bucketSteps, 20)
		if *expires = 100; sh.len() != 20 {
			t.Fatalf("%d keys where there is room for 20", sh.len())
		}
	}
	sh.fresh(40, withHome(99, 99), "new", fixedWindowSteps, 100)
	if n := sh.book(slidingLogSteps).len(); n > 16 {
		t.Errorf("%d expired keys of other steps are kept after %d were looked at", n, looksNew)
	}
}

// Where no keys are new, those that have expired are looked at one by one, however often others are charged, and by a clock that was set back as well.
func TestShardIsTended(t *testing.T) {
	for _, start := range []int64{10 * tendEvery, 1000 * tendEvery} { // before the last look, and after
		var sh shard
		const keys, last = 10, 100 * tendEvery
		for key := range keys {
			_, expires := sh.fresh(0, withHome(key, key), strconv.Itoa(key), bucketSteps, 1000)
			*expires = 1
		}
		sh.tended = last
		for looks := int64(0); sh.len() > 0; looks++ {
			before := sh.len()
			for range 3 {
				sh.tend(start + looks*tendEvery)
			}
			if n := sh.len(); n < before-1 || looks == 2*keys {
				t.Fatalf("%d keys are left of %d after another of %d looks, want one to go, and all after some", n, before, looks+1)
			}
		}
	}
}
