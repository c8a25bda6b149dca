package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// WithClock makes the script read the time from clock, as two further arguments, in place of the one TIME in its
// text. The server's own clock then decides nothing but when keys expire, which is put off by an hour.
func WithClock(clock func() time.Time) Option {
	return optionFunc(func(s *Store) error {
		text := replaceOnce(s.script.text, "redis.call('TIME')", "{table.remove(ARGV), table.remove(ARGV)}")
		text = replaceOnce(text, "SLACK = 1000", "SLACK = 3600000")
		text = replaceOnce(text, "SLACK_AFTER_WINDOW = 1000", "SLACK_AFTER_WINDOW = 3600000")
		text = replaceOnce(text, "SLACK_AFTER_END = 1000", "SLACK_AFTER_END = 3600000")
		text = replaceOnce(text, "SLACK_AFTER_DOOR = 1000", "SLACK_AFTER_DOOR = 3600000")
		s.clock, s.script = clock, newScript(text)
		return nil
	})
}

// WithShebang declares the script's keys to the server, which then refuses it any other.
func WithShebang() Option {
	return optionFunc(func(s *Store) error {
		s.script = newScript("#!lua\n" + s.script.text)
		return nil
	})
}

// WithScript makes text the script. It stands before the options that change it.
func WithScript(text string) Option {
	return optionFunc(func(s *Store) error {
		s.script = newScript(text)
		return nil
	})
}

// WithBases makes the admissions' bases those that next returns.
func WithBases(next func() uint64) Option {
	return optionFunc(func(s *Store) error {
		s.base = next
		return nil
	})
}

// WithGiveBackTime sets for how long what is denied in another slot is given back, which is long enough but for a machine with much else to do.
func WithGiveBackTime(d time.Duration) Option {
	return optionFunc(func(s *Store) error {
		s.insists = d
		return nil
	})
}

// ScriptText is the text of the script as it is shipped.
func ScriptText() string { return assemble() }

// Slot is the slot of key in a Redis Cluster.
func Slot(key string) int { return slot(key) }

func replaceOnce(text, old, new string) string {
	if strings.Count(text, old) != 1 {
		panic("the script has not exactly one " + old)
	}
	return strings.Replace(text, old, new, 1)
}

// KeyCommands is how many commands a check asks about for each key.
const KeyCommands = keyCommands

// CheckClock is what a check finds of a server's clock that says server where this program's says now.
func CheckClock(server, now time.Time) []store.Finding {
	v := visit{check: &check{}}
	v.clock(strconv.FormatInt(server.Unix(), 10), "0", now, now)
	found, _ := v.results()
	return found
}

// Queued is how many decisions wait for a ride to the server of a key, those included whose callers have left since.
func Queued(s *Store, key string) int {
	l := s.laneOf(&decision{requests: []store.Request{{Key: key}}})
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// LeaveAtLanding has a rider leave whose ride lands before the lane hears of it.
func LeaveAtLanding(ctx context.Context, s *Store, requests []store.Request) {
	l := s.lane
	r := l.newRider(ctx, decision{op: take, requests: requests})
	r.state.Store(queued)
	ride := l.enter(r, false)
	sent, _ := r.leave()
	l.run(ride)
	l.leave(r, sent)
}

// LeaveBeforeAsking has a rider leave whose ride has not begun to ask.
func LeaveBeforeAsking(ctx context.Context, s *Store, requests []store.Request) {
	l := s.lane
	r := l.newRider(ctx, decision{op: take, requests: requests})
	r.answers = l.server.Answers()
	r.state.Store(queued)
	ride := l.enter(r, false)
	sent, _ := r.leave()
	l.leave(r, sent)
	l.run(ride)
}

// Rides is how many places for rides to the server of a key are taken, and by how many riders.
func Rides(s *Store, key string) [2]int {
	l := s.laneOf(&decision{requests: []store.Request{{Key: key}}})
	l.mu.Lock()
	defer l.mu.Unlock()
	return [2]int{l.aloft, l.busy}
}

// Share is how many of a queue a ride takes.
func Share(queue, busy, most int) int { return share(queue, busy, most) }

// Aloft is how many rides a lane has on their way at once.
const Aloft = aloft

// DoorKey is where the denials and the ban of a key are.
func DoorKey(key string) string { return doorKey(key) }

// Delays carries calls in one call of the script, and returns what each is told to wait, µs. They are asked of queues.
func Delays(s *Store, calls ...store.Request) ([]int64, error) {
	var b batch
	for _, req := range calls {
		b = append(b, decision{op: take, base: s.base(), requests: []store.Request{req}})
	}
	f := s.flight(b, false)
	s.fly(context.Background(), f)
	var delays []int64
	for _, v := range f.verdicts {
		delays = append(delays, v.notes...)
	}
	return delays, f.err
}

// Together carries calls in one call of the script, which is told to say no more of them than it must, and returns what each is told.
func Together(s *Store, calls ...store.Request) ([]store.Outcome, error) {
	var b batch
	for i := range calls {
		b = append(b, decision{op: take, base: s.base(), requests: calls[i : i+1 : i+1]})
	}
	f := s.flight(b, false)
	s.fly(context.Background(), f)
	outs := make([]store.Outcome, len(f.verdicts))
	for i := range outs {
		b[i].answer(f.verdicts[i], &outs[i])
	}
	return outs, f.err
}
