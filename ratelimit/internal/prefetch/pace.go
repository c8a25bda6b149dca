package prefetch

import (
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	mostOfLog   = 1000    // permits of a batch where each is an entry in the store
	mostOfCount = 1 << 20 // and where they are not
	share       = 8       // of what the rules ever allow, a batch is 1 in so many at most
	fewest      = 4       // permits that are asked for within the time ahead before there are batches
	shortest    = time.Millisecond
)

// pace is how often permits of a pool are asked for, and what is known of how many there are.
type pace struct {
	most  int64         // permits of a batch
	ahead time.Duration // how long it is good for at most

	missed, gone int64 // permits that no batch had, and that former batches had

	used int64     // by all, at a time
	at   time.Time // zero before the first
	size int64     // of the latest batch; 0 if there was none lately

	room int64     // permits of the next batch at most
	till time.Time // when that is of yesterday
	trip time.Duration
}

// newPace returns that of a limit. It has no time ahead where that is too short to be worth it.
func newPace(req *store.Request) pace {
	p := pace{most: mostOfCount, ahead: min(req.Prefetch, store.MaxAhead)}
	if req.Algorithm.Logs() {
		p.most = mostOfLog
	}
	for _, r := range req.Rules {
		p.most = min(p.most, req.Capacity(r)/share)
		p.ahead = min(p.ahead, r.Window/2)
	}
	p.ahead = p.ahead.Truncate(time.Microsecond)
	return p
}

// plan returns how many permits the next batch has, and for how long it is good: as many as are used in half of the time ahead, at most twice as
// many as the latest had, and no more than half of what there was lately. Where these are fewer, they are charged for a shorter time, since what is charged
// for longer comes back later. n is less than 2 where there is to be no batch.
func (p *pace) plan(now time.Time, used int64) (n int64, ahead time.Duration) {
	elapsed, asked := now.Sub(p.at), used-p.used
	if p.at.IsZero() || elapsed > p.ahead && asked < fewest {
		p.used, p.at, p.size = used, now, 0
		return 0, 0
	}
	if asked < fewest || p.ahead < shortest {
		return 0, 0
	}
	rate := float64(asked) / float64(max(elapsed, time.Microsecond))
	want := int64(min(rate*float64(p.ahead)/2, mostOfCount))
	n = min(want, 2*max(p.size, fewest), p.most)
	if now.Before(p.till) {
		n = min(n, p.room)
	}
	if n < 2 {
		return 0, 0
	}
	p.used, p.at = used, now
	ahead = p.ahead
	if n < want {
		ahead = min(max(time.Duration(2*float64(n)/rate), p.ahead/16, 4*p.trip, shortest), p.ahead).Truncate(time.Microsecond)
	}
	return n, ahead
}

// heard takes note of what the store has said to the latest batch; nothing, where it did not decide.
func (p *pace) heard(now time.Time, trip time.Duration, answers []store.RuleOutcome) {
	p.trip, p.room, p.till = trip, p.most, now.Add(p.ahead/share)
	if len(answers) == 0 {
		p.room = 0
	}
	for _, r := range answers {
		p.room = min(p.room, r.Remaining/2)
	}
}

// rest makes that no batch is taken for as long as the latest was good for.
func (p *pace) rest(now time.Time) { p.room, p.till = 0, now.Add(p.ahead) }

// cold says that nothing was asked for lately.
func (p *pace) cold(now time.Time) bool { return now.Sub(p.at) > p.ahead }
