package redisstore

import (
	"errors"
	"slices"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// op is what a decision asks of the script.
type op int64

const (
	take op = iota
	giveBack
	reset
	shut // the doors, for as many µs as at says
	peek
	grant
)

// decision is one caller's requests, decided together.
type decision struct {
	op       op
	detail   bool
	base     uint64
	at       int64   // of what is given back, when it was charged: µs of the server's clock; 0 if that is not known
	notes    []int64 // of what is given back, by request, what the take said of it; nil where it said nothing
	first    int64   // of what is given back, the first permit
	requests []store.Request
}

// status is the script's answer to one decision.
type status int64

const (
	denied status = iota
	done
	taken
	failed
)

// verdict is a decision's answer. Its rules are those of the requests in order, or none where the script has
// nothing to say of them.
type verdict struct {
	status status
	at     int64   // when it was charged, µs of the server's clock
	ats    []int64 // the same for each request, where they are of several groups
	notes  []int64 // of each request, where one has notes and the call is allowed
	rules  []store.RuleOutcome
}

// batch is what one call of the script carries.
type batch []decision

// keys appends the batch's KEYS to args.
func (b batch) keys(args []any) []any {
	for i := range b {
		for j := range b[i].requests {
			args = append(args, b[i].requests[j].Key)
			if b[i].hasDoor(j) {
				args = append(args, doorKey(b[i].requests[j].Key))
			}
		}
	}
	return args
}

// countKeys is the number of the batch's KEYS.
func (b batch) countKeys() int {
	n := 0
	for i := range b {
		n += b[i].limitCount()
	}
	return n
}

// limitCount is the number of the decision's limits in the script: its requests', and their doors.
func (d *decision) limitCount() int {
	n := len(d.requests)
	for i := range d.requests {
		if d.hasDoor(i) {
			n++
		}
	}
	return n
}

// argv appends the batch's ARGV to args. The header of frame.lua says what they are.
func (b batch) argv(args []any) []any {
	var few [4]limit
	var one [4]int
	limits, numbers := b.limits(few[:0], one[:0])
	args = append(args, len(limits))
	for i := range limits {
		args = limits[i].argv(args)
	}
	for rest := b; len(rest) > 0; {
		n := rest.run(numbers)
		args, numbers = rest[:n].runArgv(args, numbers), numbers[n*rest[0].limitCount():]
		rest = rest[n:]
	}
	return args
}

// run is how many decisions at the beginning differ in their keys and names only. numbers are those of the batch's limits.
func (b batch) run(numbers []int) int {
	first, size := &b[0], b[0].limitCount()
	for n := 1; n < len(b); n++ {
		if !first.alike(&b[n]) || !slices.Equal(numbers[:size], numbers[n*size:(n+1)*size]) {
			return n
		}
	}
	return len(b)
}

// alike says whether two decisions ask the same of as many limits.
func (d *decision) alike(other *decision) bool {
	if d.op != other.op || d.detail != other.detail || d.at != other.at || len(d.requests) != len(other.requests) {
		return false
	}
	for i := range d.requests {
		if d.cost(i) != other.cost(i) || d.note(i) != other.note(i) || d.hasDoor(i) != other.hasDoor(i) {
			return false
		}
	}
	return true
}

// runArgv appends the ARGV of decisions that are alike.
func (b batch) runArgv(args []any, numbers []int) []any {
	d := &b[0]
	args = append(args, int64(d.op), flag(d.detail), d.at, d.limitCount())
	for j := range d.requests {
		args = append(args, numbers[0], d.cost(j))
		args = d.noteArgv(args, j)
		numbers = numbers[1:]
		if d.hasDoor(j) {
			args = append(args, numbers[0], d.cost(j))
			numbers = numbers[1:]
		}
	}
	named := slices.ContainsFunc(d.requests, func(req store.Request) bool { return remembers(&req) })
	args = append(args, len(b), flag(named))
	if named {
		for i := range b {
			args = append(args, &b[i].base)
		}
	}
	return args
}

// noteArgv appends, to give back, what the take said of request i.
func (d *decision) noteArgv(args []any, i int) []any {
	if d.op != giveBack {
		return args
	}
	return append(args, d.note(i))
}

// note is what a take said of request i; 0 if nothing.
func (d *decision) note(i int) int64 {
	if d.notes == nil {
		return 0
	}
	return d.notes[i]
}

// cost is what request i is asked for.
func (d *decision) cost(i int) int64 {
	if d.op == reset || d.op == shut {
		return 0
	}
	if d.op == giveBack && remembers(&d.requests[i]) {
		return d.first + d.requests[i].Cost
	}
	return d.requests[i].Cost
}

// limit is what the script is told of all requests that are alike but for their keys and costs.
type limit struct {
	place    int
	option   int64
	ahead    int64 // µs
	rules    []rules.Rule
	decision int // the latest on it
}

func (l *limit) argv(args []any) []any {
	args = append(args, l.place, l.option, l.ahead, len(l.rules))
	for _, r := range l.rules {
		args = append(args, r.Count, micros(r.Window))
	}
	return args
}

func (l *limit) equal(other *limit) bool {
	return l.place == other.place && l.option == other.option && l.ahead == other.ahead && slices.Equal(l.rules, other.rules)
}

// limits appends the limits that the batch is on, and for each request the number of its own, from 1: no two of one decision
// have the same.
func (b batch) limits(limits []limit, numbers []int) ([]limit, []int) {
	for i := range b {
		for j := range b[i].requests {
			limits, numbers = b[i].limit(j).join(i, limits, numbers)
			if b[i].hasDoor(j) {
				limits, numbers = b[i].door(j).join(i, limits, numbers)
			}
		}
	}
	return limits, numbers
}

// join appends a limit of decision i, unless it is there, and its number.
func (l limit) join(i int, limits []limit, numbers []int) ([]limit, []int) {
	l.decision = i
	at := slices.IndexFunc(limits, func(other limit) bool { return other.decision != i && other.equal(&l) })
	if at < 0 {
		at, limits = len(limits), append(limits, l)
	}
	limits[at].decision = i
	return limits, append(numbers, at+1)
}

// limit is that of request i. Of a sliding log what is given back is said by the numbers of the first permit and of the one behind the last. What a sliding log gets back needs its rules only to be described.
func (d *decision) limit(i int) limit {
	req := &d.requests[i]
	l := limit{place: place(req), option: option(req), ahead: req.Ahead.Microseconds(), rules: req.Rules}
	if d.op == giveBack && remembers(req) {
		l.option = d.first
		if !d.detail {
			l.rules = nil
		}
	}
	return l
}

// size is the number of the batch's ARGV where its decisions are alike, as they mostly are.
func (b batch) size() int {
	n := 7 + len(b)
	for j := range b[0].requests {
		n += 6 + 2*len(b[0].requests[j].Rules)
		if b[0].hasDoor(j) {
			n += 8
		}
	}
	return n
}

// errReply is what no server answers that runs the script.
var errReply = meaning{class: store.Misconfigured, mend: "nothing between client and server may change replies"}.
	fail(errors.New("the reply is not one of the script's"))

// decode reads the script's reply: one verdict for each decision. There is no reply where a hook of the client dropped the command.
func (b batch) decode(reply []int64) ([]verdict, error) {
	if len(reply) == 0 {
		return nil, errReply
	}
	now, reply := reply[0], reply[1:]
	verdicts := make([]verdict, len(b))
	for i := 0; i < len(b); {
		if len(reply) == 0 || reply[0] < int64(i-len(b)) || reply[0] > int64(failed) {
			return nil, errReply
		}
		if several := int(-reply[0]); several > 0 {
			for range several {
				if !b[i].brief() {
					return nil, errReply
				}
				verdicts[i].status, verdicts[i].at = done, now
				i++
			}
			reply = reply[1:]
			continue
		}
		v := &verdicts[i]
		v.status, reply = status(reply[0]), reply[1:]
		if v.status == done && b[i].op == take {
			var ok bool
			v.at = now
			if v.notes, reply, ok = b[i].decodeNotes(reply); !ok {
				return nil, errReply
			}
		}
		if v.status == denied || v.status == done && b[i].detail {
			var ok bool
			if v.rules, reply, ok = b[i].decodeRules(reply); !ok {
				return nil, errReply
			}
		}
		i++
	}
	if len(reply) != 0 {
		return nil, errReply
	}
	return verdicts, nil
}

// brief says whether there is no more to say of the decision, once it is done, than when that was.
func (d *decision) brief() bool { return d.op == take && !d.detail }

// forgets says whether a request's algorithm does not tell admissions apart.
func (d *decision) forgets() bool {
	return slices.ContainsFunc(d.requests, func(req store.Request) bool { return !remembers(&req) })
}

// dates says whether the script has to be told when a request was charged.
func (d *decision) dates() bool {
	return slices.ContainsFunc(d.requests, func(req store.Request) bool { return dates(&req) })
}

func (d *decision) decodeRules(reply []int64) ([]store.RuleOutcome, []int64, bool) {
	fields, n := 1, countRules(d.requests)
	if d.detail {
		fields = 3
	}
	if len(reply) < (n+d.limitCount()-len(d.requests))*fields {
		return nil, nil, false
	}
	rules := make([]store.RuleOutcome, n)
	left := rules
	for i := range d.requests {
		var own []store.RuleOutcome
		own, left = left[:len(d.requests[i].Rules)], left[len(d.requests[i].Rules):]
		for j := range own {
			own[j] = d.decodeRule(reply)
			reply = reply[fields:]
		}
		if d.hasDoor(i) {
			d.shutAll(i, own, d.decodeRule(reply))
			reply = reply[fields:]
		}
	}
	return rules, reply, true
}

func (d *decision) decodeRule(reply []int64) store.RuleOutcome {
	r := store.RuleOutcome{RetryAfter: wait(reply[0])}
	if d.detail {
		r.Remaining, r.ResetAfter = reply[1], wait(reply[2])
	}
	return r
}

// decodeNotes reads what is noted of the requests; nil if none has notes.
func (d *decision) decodeNotes(reply []int64) (notes, rest []int64, ok bool) {
	for i := range d.requests {
		if !noted(&d.requests[i]) {
			continue
		}
		if len(reply) == 0 {
			return nil, nil, false
		}
		if notes == nil {
			notes = make([]int64, len(d.requests))
		}
		notes[i], reply = reply[0], reply[1:]
	}
	return notes, reply, true
}

func countRules(requests []store.Request) int {
	n := 0
	for i := range requests {
		n += len(requests[i].Rules)
	}
	return n
}

// wait is a reply's µs as a duration.
func wait(n int64) time.Duration {
	if n < 0 {
		return store.Never
	}
	return time.Duration(n) * time.Microsecond
}

// micros is d in µs, rounded up: a window is never shorter in Redis than it was asked for.
func micros(d time.Duration) int64 {
	return int64((d + time.Microsecond - 1) / time.Microsecond)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
