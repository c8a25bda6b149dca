package memstore

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// The log of an id that calls for ever holds no more than the largest count.
func TestSlidingLogStaysSmall(t *testing.T) {
	rs := []rules.Rule{{Count: 3, Window: time.Second}, {Count: 10, Window: time.Minute}}
	req := &store.Request{Rules: rs, Cost: 1}
	var log slidingLog
	admitted := 0
	for now := int64(0); admitted < 1000; now += 100_000 {
		allowed := true
		for _, r := range rs {
			retryAfter, _ := log.ask(now, req, r)
			allowed = allowed && retryAfter == 0
		}
		if allowed {
			admitted++
			log.charge(now, req, admission{at: now, cost: 1, id: uint64(admitted)})
		}
		if n, live := len(log.admissions), len(log.admissions)-log.gone; live > 11 || n > 22 {
			t.Fatalf("after %d admissions the log has %d, and memory for %d, want at most 11 and 22", admitted, live, n)
		}
	}
}

// The first admission later than a time is the one that is found by looking at each, in logs of any length, wherever in it the time is.
func TestFirstAfter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		log := slidingLog{admissions: make([]logged, r.IntN(40))}
		at := int64(0)
		for i := range log.admissions {
			at += r.Int64N(3)
			log.admissions[i].at = at
		}
		log.gone = r.IntN(len(log.admissions)/2 + 1)
		now, want := r.Int64N(at+3)-1, log.gone
		for want < len(log.admissions) && log.admissions[want].at <= now {
			want++
		}
		if got := log.firstAfter(now); got != want {
			t.Fatalf("firstAfter(%d) = %d, want %d in %+v from %d on", now, got, want, log.admissions, log.gone)
		}
	}
}
