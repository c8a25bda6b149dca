package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/testdata/suite"
)

// compactLog is one limit on a server of its own, whose string a test reads.
type compactLog struct {
	server *miniredis.Miniredis
	store  store.Store
	clock  *storetest.Clock
	req    store.Request
}

func newCompactLog(t *testing.T, count int64, window time.Duration) *compactLog {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	clock := storetest.NewClock()
	clock.OnMove(server.SetTime)
	return &compactLog{server, newStore(t, client), clock, store.Request{
		Key: "log", Algorithm: rules.CompactLog, Rules: []rules.Rule{{Count: count, Window: window}}}}
}

func (l *compactLog) now() int64 { return l.clock.Now().UnixMicro() }

func (l *compactLog) take(t *testing.T, cost int64) store.Outcome {
	t.Helper()
	req := l.req
	req.Cost = cost
	return take(t, l.store, req)
}

func (l *compactLog) giveBack(t *testing.T, r store.Receipt) {
	t.Helper()
	if err := l.store.GiveBack(context.Background(), r); err != nil {
		t.Fatal(err)
	}
}

// layout is what the string of a log says, as the header of compact_log.lua has it. Times are µs.
type layout struct {
	parts          bool
	expires, floor int64
	older, room    int64
	times          []int64 // of all records
}

func (l layout) String() string {
	if !l.parts {
		return fmt.Sprint("whole ", len(l.times))
	}
	return fmt.Sprintf("older %d, newer %d, room %d", l.older, len(l.times)-int(l.older), l.room)
}

// read fails unless the string is what the header says.
func (l *compactLog) read(t *testing.T) (out layout) {
	t.Helper()
	const page, zeros = 148, "\x00\x00\x00\x00\x00\x00"
	text, err := l.server.Get("log")
	if err == miniredis.ErrKeyNotFound {
		return out
	}
	if err != nil {
		t.Fatal(err)
	}
	number := func(at int, near int64) int64 {
		n := int64(0)
		for _, b := range []byte(text[at : at+6]) {
			n = n<<8 | int64(b)
		}
		return near + (n-near+1<<47)&(1<<48-1) - 1<<47
	}
	times := func(from, to int) {
		if (to-from)%6 != 0 {
			t.Fatalf("%d bytes of records, want whole records of 6", to-from)
		}
		for ; from < to; from += 6 {
			out.times = append(out.times, number(from, l.now()))
		}
	}
	out.expires = number(4, l.now())
	switch text[:4] {
	case "\x03log":
		if len(text) >= page {
			t.Fatalf("a whole string of %d bytes, want less than %d", len(text), page)
		}
		times(10, len(text))
	case "\x04log":
		out.parts, out.floor, out.older, out.room = true, number(10, l.now()), number(16, 0), number(22, 0)
		if want := page + 6*(out.older+out.room); int64(len(text)) != want {
			t.Fatalf("%d bytes with %d older records and room for %d, want %d", len(text), out.older, out.room, want)
		}
		end := 28
		for end+6 <= page && text[end:end+6] != zeros {
			end += 6
		}
		if end+6 > page || strings.Trim(text[end:page], "\x00") != "" {
			t.Fatalf("the newest records end at byte %d, want zeros behind them up to byte %d", end, page)
		}
		times(page, page+6*int(out.older))
		times(28, end)
	default:
		t.Fatalf("the string begins with %q", text[:4])
	}
	if !slices.IsSorted(out.times) || len(out.times) == 0 {
		t.Fatalf("the records are of %v, want some, the oldest first", out.times)
	}
	return out
}

// TestCompactLogLayout charges one cost after the other, a microsecond apart, and gives some back: each step leaves the
// string as its header says, and no longer than that.
func TestCompactLogLayout(t *testing.T) {
	const back, together = -1, 1000 // the last call; and with it, in the same microsecond
	log := newCompactLog(t, 10_000, time.Hour)
	var last store.Receipt
	for i, step := range []struct {
		cost int64
		want string
	}{
		{1, "whole 1"},
		{21, "whole 22"},                               // 142 bytes
		{1, "older 13, newer 10, room 10"},             // 148 would be a page: 10 stay in it, and there is room for 10
		{back, "older 13, newer 9, room 10"},           // of what is in the page, only the page is written
		{10, "older 13, newer 19, room 10"},            // all that the page holds
		{back, "older 13, newer 9, room 10"},           //
		{11, "older 23, newer 10, room 0"},             // one more: as many as there is room for
		{9, "older 23, newer 19, room 0"},              //
		{1, "older 33, newer 10, room 10"},             //
		{9, "older 33, newer 19, room 10"},             //
		{together + 12, "older 54, newer 10, room 10"}, // 21 are too many for the room
		{100, "older 154, newer 10, room 20"},          // an eighth
		{600, "older 754, newer 10, room 95"},          // more than a page at once
		{back, "older 154, newer 10, room 20"},         // what lies behind the page is written anew
		{back, "older 154, newer 10, room 20"},
		{9, "older 154, newer 19, room 20"},
		{together + 11, "older 174, newer 10, room 0"}, // in the newest microsecond, too, only the page and the room are written
		{9, "older 174, newer 19, room 0"},
		{10, "older 193, newer 10, room 25"},
		{back, "older 193, newer 0, room 25"}, // all of the page and nothing else, which is still the page alone
		{1, "older 193, newer 1, room 25"},
	} {
		if step.cost > together {
			step.cost -= together
		} else {
			log.clock.Move(time.Microsecond)
		}
		if step.cost == back {
			log.giveBack(t, last)
		} else {
			last = log.take(t, step.cost).Receipt
		}
		if got := log.read(t).String(); got != step.want {
			t.Fatalf("step %d, of cost %d: %s, want %s", i+1, step.cost, got, step.want)
		}
	}
}

// TestCompactLogExpiry: the key outlives the window of its newest unit, if only by a microsecond, and says when it expires.
func TestCompactLogExpiry(t *testing.T) {
	for _, test := range []struct {
		first  int64
		window time.Duration
	}{{1, 1500 * time.Microsecond}, {1, 2 * time.Millisecond}, {500, 1500 * time.Microsecond}, {500, 2 * time.Millisecond}} {
		log := newCompactLog(t, 1000, test.window)
		log.take(t, test.first)
		for _, step := range []time.Duration{time.Millisecond, 998 * time.Millisecond, time.Millisecond, 400 * time.Microsecond, 99 * time.Microsecond, time.Microsecond, time.Second} {
			log.server.FastForward(step)
			log.clock.Move(step)
			log.take(t, 1)
			says, ttl := time.Duration(log.read(t).expires-log.now())*time.Microsecond, log.server.TTL("log")
			if says <= test.window || says > 1003*time.Millisecond || ttl-says > time.Millisecond || says-ttl > time.Millisecond {
				t.Errorf("%v on, after %d: the key expires in %v and says in %v, want the same, and more than the window of %v", step, test.first, ttl, says, test.window)
			}
		}
	}
}

// TestCompactLogKeepsWhatCounts: after any calls, at any times, the records are of what was charged and not given back; none is
// missing that is within the window, and not many more are kept.
func TestCompactLogKeepsWhatCounts(t *testing.T) {
	t.Parallel()
	for _, count := range []int64{3, 22, 31, 400, 3000} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			seeds := uint64(1)
			if suite.Long() {
				seeds = 4
			}
			for seed := range seeds {
				w := compactLayoutWalk{compactLog: newCompactLog(t, count, time.Second), random: rand.New(rand.NewPCG(seed, uint64(count)))}
				for range 300 {
					w.step(t)
					w.check(t)
				}
			}
		})
	}
}

type compactLayoutWalk struct {
	*compactLog
	random   *rand.Rand
	charged  []int64 // times, in order
	latest   int64
	receipts []store.Receipt
	costs    []int64
}

func (w *compactLayoutWalk) step(t *testing.T) {
	w.latest = max(w.latest, w.now())
	count := w.req.Rules[0].Count
	switch w.random.IntN(8) {
	case 0:
		w.clock.Move([]time.Duration{time.Microsecond, 100 * time.Millisecond, time.Second, -300 * time.Millisecond, -time.Microsecond}[w.random.IntN(5)])
	case 1:
		if n := len(w.receipts); n > 0 {
			w.back(t, max(n-1-w.random.IntN(4), 0))
		}
	default:
		cost := 1 + w.random.Int64N([]int64{1, 3, 1 + count/3, 1 + count/20}[w.random.IntN(4)])
		if out := w.take(t, cost); out.Allowed {
			w.charged = append(w.charged, slices.Repeat([]int64{w.now()}, int(cost))...)
			slices.Sort(w.charged)
			w.receipts, w.costs = append(w.receipts, out.Receipt), append(w.costs, cost)
		}
		w.clock.Move(time.Duration(w.random.IntN(2)*w.random.IntN(20_000)) * time.Microsecond)
	}
}

// back gives a receipt back. What is dropped by then is not there to be given back.
func (w *compactLayoutWalk) back(t *testing.T, i int) {
	w.giveBack(t, w.receipts[i])
	at := w.receipts[i].Charges[0].At
	if first, found := slices.BinarySearch(w.charged, at); found && at > w.latest-time.Second.Microseconds() {
		w.charged = slices.Delete(w.charged, first, first+int(w.costs[i]))
	}
	w.receipts, w.costs = slices.Delete(w.receipts, i, i+1), slices.Delete(w.costs, i, i+1)
}

func (w *compactLayoutWalk) check(t *testing.T) {
	t.Helper()
	w.latest = max(w.latest, w.now())
	got := w.read(t)
	edge := w.latest - time.Second.Microseconds()
	within := func(times []int64) []int64 {
		first, _ := slices.BinarySearch(times, edge+1)
		return times[first:]
	}
	if kept, want := within(got.times), within(w.charged); !slices.Equal(kept, want) {
		t.Fatalf("%d records within the window, want %d of what was charged and not given back", len(kept), len(want))
	}
	if most := w.req.Rules[0].Count; int64(len(got.times)) > most+most/8+30 {
		t.Fatalf("%d records of a count of %d, want no more than an eighth and a page beside it", len(got.times), most)
	}
}

// TestCompactLogOfDropped: what a log has dropped is not there any more, also where its records stay: not when the newest of what was not
// dropped is given back, and the clock is set back then. A sliding log answers the same.
func TestCompactLogOfDropped(t *testing.T) {
	for _, count := range []int64{2, 200} { // whole, and in parts
		log := newCompactLog(t, count, time.Second)
		log.take(t, count)
		log.clock.Move(time.Second)
		log.giveBack(t, log.take(t, 1).Receipt) // all that was charged first is dropped
		for _, step := range []struct {
			back       time.Duration
			cost       int64
			used       int64
			resetAfter time.Duration
		}{
			{time.Microsecond, 0, 0, 0},
			{time.Second - time.Microsecond, 1, 1, time.Second}, // when the dropped were charged
			{0, 1, 2, time.Second},
		} {
			log.clock.Move(-step.back)
			if r := log.take(t, step.cost).Rules[0]; r.Remaining != count-step.used || r.ResetAfter != step.resetAfter {
				t.Errorf("count %d, %v back: %d remaining, reset after %v, want %d after %v", count, step.back, r.Remaining, r.ResetAfter, count-step.used, step.resetAfter)
			}
		}
	}
}

// TestCompactLogWithoutItsNewest: where all units within the page are given back, and the clock is set back behind some of those that are older,
// what is charged then has its place before these.
func TestCompactLogWithoutItsNewest(t *testing.T) {
	log := newCompactLog(t, 1000, time.Hour)
	log.take(t, 1)
	log.clock.Move(2 * time.Microsecond)
	log.take(t, 12)
	log.clock.Move(time.Microsecond)
	log.giveBack(t, log.take(t, 10).Receipt)
	if got, want := log.read(t).String(), "older 13, newer 0, room 10"; got != want {
		t.Fatalf("%s before the clock is set back, want %s", got, want)
	}
	log.clock.Move(-2 * time.Microsecond)
	log.take(t, 1)
	if got, want := log.read(t).String(), "whole 14"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
