// Package store says what a store of counts is: what it is asked, what it answers, and how it fails.
//
// The packages memstore and redisstore are stores; storetest has the tests that every store passes.
package store

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rlgen/rlgen/rules"
)

// Store keeps the counts behind limits and decides calls. It is safe for concurrent use.
type Store interface {
	// Take decides one call: it is allowed only if every request has room, and then every request is
	// charged; if any has none, nothing is charged. Keys of one call are distinct.
	//
	// With detail, the outcome's rules carry remaining and reset-after; without it the store may leave
	// them zero.
	//
	// Take writes all of out, which is not nil, and may do so into the memory of the slices that out has: a caller
	// who keeps an answer, or its receipt, gives the next call another. It never changes the requests, and keeps neither out nor, where it returns no error,
	// the requests, but in the receipt. [Take], the function, is for callers who need not care.
	//
	// An error means that the call is not decided, and is an [*Error] or the context's own; out is then of no use. Take
	// returns once ctx is done.
	Take(ctx context.Context, requests []Request, detail bool, out *Outcome) error

	// GiveBack returns what an allowed Take charged, as if the call had never been made; of permits that were taken ahead, a bucket keeps what it
	// would have gained until the time as of which they were charged. Giving back twice, or
	// after the permits have left their windows, does nothing. It changes no ban. It goes ahead even where ctx, which is mostly the context of a call that has ended, is done.
	GiveBack(ctx context.Context, receipt Receipt) error

	// Reset forgets what the keys of requests have counted, and the bans of those with a Ban, as if no call had ever been made of them: they are absent afterwards. It may be
	// repeated. What a call is given back later that was charged before is, of a log, nothing; of another algorithm, at most what the call was charged, out
	// of what has been charged since.
	//
	// The requests' costs do not matter. Keys are distinct, and all of them are reset unless there is an error, which is an [*Error] or the
	// context's own: then any may be.
	Reset(ctx context.Context, requests []Request) error

	// Grant gives the ids of requests back what their costs say, 1 or more, as if the units that were charged last had never been: every rule then has so much
	// more remaining, and at most all that it ever has. What a log or a sliding window has charged last leaves it, of a fixed window what is left is
	// the window's, a bucket fills. Bans stay. A charge that was granted back and is given back as well may count twice, but for a sliding log.
	//
	// A queue is refused, whose calls have been told when to go on, and so is a cost beyond the largest that a rule of the request ever allows: see
	// [ValidateGrant]. Its errors are those of Reset, but it is done at most once, and where the error is [Indeterminate] nobody knows whether it is.
	Grant(ctx context.Context, requests []Request) error

	// Peek writes into out what Take with detail would answer, and does nothing else: it charges nothing, and counts no denial towards a ban. What queues would
	// delay is not said. Keys are distinct. Of requests whose keys lie in several places, each place is asked by itself. Its errors are those of Reset.
	Peek(ctx context.Context, requests []Request, out *Outcome) error

	// Ban closes the keys of requests, each of which has a Ban, for d from now on, in place of whatever ban there is; 0 lifts it, and forgets the denials
	// that count towards another. It may be repeated, and its errors are those of Reset.
	Ban(ctx context.Context, requests []Request, d time.Duration) error
}

// Take is [Store.Take] of s with an outcome of its own.
func Take(ctx context.Context, s Store, requests []Request, detail bool) (Outcome, error) {
	var out Outcome
	err := s.Take(ctx, requests, detail, &out)
	return out, err
}

// Remote is a [Store] that is asked over a network. A limiter remembers for a moment what it denies, and does not ask it again: what the store denies with a
// RetryAfter it would deny until then, to whoever asks as much or more of the same rules.
type Remote interface {
	Store

	// Remote does nothing: it marks the store.
	Remote()
}

// Budgeted is a [Store] whose calls end within a time.
type Budgeted interface {
	Store

	// Budget is how long a Take lasts at most.
	Budget() time.Duration
}

// Request asks one limit for permits.
type Request struct {
	Key       string
	Algorithm rules.Algorithm
	Rules     []rules.Rule // not changed by the store, nor by the caller afterwards
	Burst     int64        // depth of a bucket; 0 for each rule's count
	Start     rules.Start  // where a fixed window begins
	Refill    rules.Refill // how a token bucket gains its tokens
	Segments  int64        // sub-windows of a sliding window; 0 for rules.DefaultSegments
	Cost      int64        // 0 asks without charging; never negative

	// Ahead makes what is charged count as if it were charged so much later than now, [MaxAhead] at most: the permits may then be used until
	// that time has passed. Whether there is room is asked as of now. Of a log, less than 0 is so much earlier, a rule's window at most: what was let through
	// without the store, and is charged to it later.
	Ahead time.Duration

	// Prefetch is how long before their use permits of the key may be taken, many at once, by a store that asks another one: it takes them by an Ahead of
	// as long at most. Other stores take no notice of it.
	Prefetch time.Duration

	// Queue makes a leaky bucket of one rule a queue, whose outcome says for how long the call is delayed. A call that
	// would be delayed for longer than Wait is denied.
	Queue bool
	Wait  time.Duration

	// Returns says that calls are often given back, some time after they were charged, as those are that a limit charges by their outcome. A bucket then
	// counts what it charges, for what is given back of calls that overlap to be as if they had never been made, and takes more memory and time for
	// that. Without it, each of them loses what has come back for all. Other algorithms take no notice of it.
	Returns bool

	// Ban closes the key for so long to all calls that cost anything, once calls have been denied After times within the longest window by rules that they can
	// meet: the last of them is denied for that long, too. Who is denied for the ban is not counted, and does not put off its end. Both are 0, or neither is;
	// a queue has none.
	Ban   time.Duration
	After int64
}

// NewRequest asks l, under a key, for cost.
func NewRequest(l *rules.Limit, key string, cost int64) Request {
	req := Request{
		Key: key, Algorithm: l.Algorithm, Rules: l.Rules, Cost: cost,
		Burst: l.Burst, Start: l.Start, Refill: l.Refill, Segments: l.Segments,
	}
	if l.Queues() {
		req.Queue, req.Wait = true, l.Wait
	}
	req.Prefetch, req.Ban, req.After = l.Prefetch, l.Ban, l.After
	req.Returns = l.Charge != rules.ChargeAlways
	return req
}

// Longest is the longest window of the request's rules.
func (req *Request) Longest() (w time.Duration) {
	for _, r := range req.Rules {
		w = max(w, r.Window)
	}
	return w
}

// Refused says whether denials by these answers, which are all of the request's own rules', count towards its ban: whether one of them denies,
// and none for ever.
func (req *Request) Refused(answers []RuleOutcome) bool {
	refused := false
	for i := range answers {
		if answers[i].RetryAfter == Never {
			return false
		}
		refused = refused || answers[i].RetryAfter > 0
	}
	return refused && req.Ban > 0 && req.Cost > 0
}

// Capacity is the largest cost that r, a rule of the request, ever allows.
func (req *Request) Capacity(r rules.Rule) int64 {
	if req.Burst > 0 {
		return req.Burst
	}
	return r.Count
}

// Outcome is what a store answers to one Take.
type Outcome struct {
	Allowed bool
	// Cached says that the call is denied from memory, and that the store which keeps the counts was not asked. Rules then says, with detail, what the store has said of them a
	// moment ago, less the time and what was charged since by those who remember it; without detail, nothing of limits of which nothing is remembered.
	Cached bool
	// Ahead has bit i set where request i is charged to permits that had been taken ahead: see [Request.Prefetch]. The store that keeps the counts was not
	// asked for it.
	Ahead uint64
	// Rules has an answer for every rule of every request, in the order of the requests and of their rules.
	Rules []RuleOutcome
	// Receipt gives back what was charged; it is of no use where Allowed is false.
	Receipt Receipt
}

// RuleOutcome is what one rule answers.
type RuleOutcome struct {
	// Remaining is the cost that would pass now, after this call.
	Remaining int64
	// RetryAfter is how long until the same cost passes if nobody else asks: zero if the rule allowed
	// the call, [Never] if the cost is more than the rule's count.
	RetryAfter time.Duration
	// ResetAfter is how long until the rule has all of its count again if nobody else asks.
	ResetAfter time.Duration
	// Delay is how long the call has to wait, where a queue has allowed it, before it goes on; else zero.
	Delay time.Duration
	// Banned is the time until the ban of the request's key ends; zero if it is not banned. A banned key
	// is denied at any cost, 0 included. RetryAfter is no shorter then, and nothing remains.
	Banned time.Duration
}

// Close changes r to the outcome of a key that is banned for d.
func (r *RuleOutcome) Close(d time.Duration) {
	r.Banned, r.Remaining = d, 0
	r.RetryAfter, r.ResetAfter = max(r.RetryAfter, d), max(r.ResetAfter, d)
}

// Never is the RetryAfter of a cost that no waiting makes pass.
const Never time.Duration = 1<<63 - 1

// Receipt is a store's own record of what one Take charged. The zero Receipt charged nothing.
type Receipt struct {
	Requests []Request
	// ID names the admission in the store.
	ID uint64
	// Charges has one for each request, and is nil where the store finds every admission by its ID alone.
	Charges []Charge
	// Partial says that the requests' costs are a part of what was charged, from the permit First on, so that to give back twice is to give back more: see
	// [Receipt.Some].
	Partial bool
	First   int64
	// From is who has charged it, where that is not the store which keeps the counts, and takes it back.
	From GiverBack
}

// GiverBack takes back what it has charged, as a [Store] does.
type GiverBack interface {
	GiveBack(ctx context.Context, receipt Receipt) error
}

// Part returns a receipt for those requests of r that keep says to, which r itself is then not to give back.
func (r Receipt) Part(keep func(i int) bool) Receipt {
	part := Receipt{ID: r.ID, Partial: r.Partial, First: r.First, From: r.From}
	var charges []*Charge
	for i := range r.Requests {
		if !keep(i) || i < len(r.Charges) && r.Charges[i].GivenBack.Swap(true) {
			continue
		}
		part.Requests = append(part.Requests, r.Requests[i])
		if i < len(r.Charges) {
			charges = append(charges, &r.Charges[i])
		}
	}
	if charges != nil {
		part.Charges = make([]Charge, len(charges))
	}
	for i, c := range charges {
		part.Charges[i].At, part.Charges[i].Note = c.At, c.Note
	}
	return part
}

// Some returns a receipt for cost of the permits of r, from first on, which is of one request and is then not to be given back itself. The receipts of parts that
// do not overlap can be given back once each.
func (r Receipt) Some(first, cost int64) Receipt {
	part := r.Part(func(int) bool { return false })
	part.Requests = []Request{r.Requests[0]}
	part.Partial, part.First = cost < r.Requests[0].Cost, first
	part.Requests[0].Cost = cost
	if len(r.Charges) > 0 {
		part.Charges = make([]Charge, 1)
		part.Charges[0].At, part.Charges[0].Note = r.Charges[0].At, r.Charges[0].Note+first
	}
	return part
}

// Charge is what a receipt remembers of a request that the store does not find by the ID alone.
type Charge struct {
	At        int64       // when the store charged it, µs of its clock
	Note      int64       // of a queue, how long after that the call was to go on, µs; of a bucket whose calls return, how many permits it knows to have been charged before
	GivenBack atomic.Bool // whoever sets it gives it back, once
}

// Keyed is a [Store] that keeps more than one key for some requests.
type Keyed interface {
	Store

	// Keys are where the store keeps what it knows of a request: its Key first.
	Keys(req *Request) []string
}
