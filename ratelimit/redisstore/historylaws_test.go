package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// at is a call of cost 1 to limit 0 that lasts from ms to ms+1.
func at(ms int, r result) call {
	start := time.Duration(ms) * time.Millisecond
	return call{
		charges: []charge{{cost: 1, denies: r == denied}}, start: start, end: start + time.Millisecond, duration: duration{took: time.Millisecond}, result: r,
	}
}

// returned is the call, given back from ms to ms+1.
func (c call) returned(ms int) call {
	c.backStart = time.Duration(ms) * time.Millisecond
	c.backEnd = c.backStart + time.Millisecond
	return c
}

// bannedAt is a denial at ms that says that the limit is banned until another.
func bannedAt(ms, until int) call {
	c := at(ms, denied)
	c.charges[0].banned = time.Duration(until-ms) * time.Millisecond
	return c
}

// fromMemory is the call, answered without the store.
func (c call) fromMemory() call {
	c.source = "remembered: denied"
	return c
}

// resetAt is a reset from ms to ms+1, and banAt a ban of so many.
func resetAt(ms int) act {
	return act{reset: true, start: at(ms, allowed).start, end: at(ms, allowed).end}
}

func banAt(ms, d int) act {
	return act{ban: time.Duration(d) * time.Millisecond, start: at(ms, allowed).start, end: at(ms, allowed).end}
}

// fails is the act, which the store may have done and may not.
func (a act) fails() act {
	a.failed = true
	return a
}

// TestHistoryLawsOfActs holds that the checker of histories knows what resets and bans do. The limit is 2 in a second, and bans for 500 ms after 3 denials.
func TestHistoryLawsOfActs(t *testing.T) {
	full := []call{at(0, allowed), at(1, allowed)}
	after := func(more ...call) []call { return append(full[:2:2], more...) }
	three := []call{at(10, denied), at(11, denied), bannedAt(12, 512)}
	flush := []span{{20 * time.Millisecond, 30 * time.Millisecond}}
	for _, test := range []struct {
		name   string
		calls  []call
		acts   []act
		losses []span
		breaks string // the law; none if empty
	}{
		{"two after a reset", after(at(100, allowed), at(101, allowed)), []act{resetAt(50)}, nil, ""},
		{"three after a reset", after(at(100, allowed), at(101, allowed), at(102, allowed)), []act{resetAt(50)}, nil, "admissions"},
		{"two more, and a reset of another key", after(at(100, allowed), at(101, allowed)), []act{{limit: 1, reset: true, start: 50, end: 51}}, nil, "admissions"},
		{"two more, and the reset afterwards", after(at(100, allowed), at(101, allowed)), []act{resetAt(150)}, nil, "admissions"},
		{"two after a reset that may have failed", after(at(100, allowed), at(101, allowed)), []act{resetAt(50).fails()}, nil, ""},
		{"two after a reset that failed long ago", []call{at(20_000, allowed), at(20_001, allowed), at(20_100, allowed)}, []act{resetAt(0).fails()}, nil, "admissions"},
		{"denied after a reset", after(at(100, denied)), []act{resetAt(50)}, nil, "denials"},
		{"denied during a reset", after(at(50, denied)), []act{resetAt(50)}, nil, ""},
		{"denied after a reset that may have failed", after(at(100, denied)), []act{resetAt(50).fails()}, nil, ""},
		{"denied after a reset that was lost", after(at(100, denied)), []act{resetAt(10)}, flush, ""},
		{"given back after a reset, of what others were charged", []call{at(0, allowed).returned(110), at(1, allowed), at(100, allowed), at(101, allowed), at(120, allowed)},
			[]act{resetAt(50)}, nil, ""},

		{"banned by three denials", after(three...), nil, nil, ""},
		{"banned by two denials", after(at(11, denied), bannedAt(12, 512)), nil, nil, "bans"},
		{"banned by three denials, of which one was lost", after(at(10, denied), at(11, indeterminate), bannedAt(12, 512)), nil, nil, ""},
		{"banned by denials of longer ago than a window", []call{at(0, allowed), at(1, allowed), at(2, denied), at(3, denied), at(1020, allowed), at(1021, allowed), bannedAt(1022, 1522)}, nil, nil, "bans"},
		{"told of a ban again", after(append(three, bannedAt(100, 512), bannedAt(400, 512))...), nil, nil, ""},
		{"told of a longer ban", after(append(three, bannedAt(100, 580))...), nil, nil, "bans"},
		{"remembering a ban", after(append(three, bannedAt(100, 512).fromMemory())...), nil, nil, ""},
		{"remembering a ban of which nobody was told", after(at(10, denied), at(11, denied), bannedAt(12, 512).fromMemory()), nil, nil, "bans"},
		{"banned by somebody", []call{bannedAt(100, 300)}, []act{banAt(0, 300)}, nil, ""},
		{"banned for longer than somebody asked for", []call{bannedAt(100, 350)}, []act{banAt(0, 300)}, nil, "bans"},
		{"banned before somebody asked for it", []call{bannedAt(100, 450)}, []act{banAt(150, 300)}, nil, "bans"},
		{"banned by an act that may have failed", []call{bannedAt(100, 350)}, []act{banAt(0, 300).fails()}, nil, ""},
		{"banned after the ban was lifted", []call{bannedAt(100, 300)}, []act{banAt(0, 300), banAt(50, 0)}, nil, "bans"},
		{"banned after a reset", []call{bannedAt(100, 300)}, []act{banAt(0, 300), resetAt(50)}, nil, "bans"},
		{"banned after a lift that may have failed", []call{bannedAt(100, 300)}, []act{banAt(0, 300), banAt(50, 0).fails()}, nil, ""},
		{"banned after a lift that was lost", []call{bannedAt(100, 300)}, []act{banAt(0, 300), banAt(10, 0)}, flush, ""},
		{"admitted while banned", []call{bannedAt(100, 300), at(150, allowed)}, []act{banAt(0, 300)}, nil, "bans"},
		{"admitted when the ban is over", []call{bannedAt(100, 300), at(350, allowed)}, []act{banAt(0, 300)}, nil, ""},
		{"admitted when the ban was lifted", []call{bannedAt(100, 300), at(150, allowed)}, []act{banAt(0, 300), banAt(120, 0)}, nil, ""},
		{"admitted when the ban was lost", []call{bannedAt(10, 300), at(150, allowed)}, []act{banAt(0, 300)}, flush, ""},
		{"admitted after a remembered ban that was lost", []call{bannedAt(10, 300), bannedAt(100, 300).fromMemory(), at(150, allowed)}, []act{banAt(0, 300)}, flush, ""},
		{"admitted when the ban may have been lifted", []call{bannedAt(100, 300), at(150, allowed)}, []act{banAt(0, 300), banAt(120, 0).fails()}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := store.NewRequest(directiveOf(t, "2,1s ban=500ms after=3"), "rl:global:a", 1)
			h := history{limits: []store.Request{req}, calls: test.calls, acts: test.acts, losses: test.losses}
			wantLaw(t, &h, test.breaks)
		})
	}
}

// TestHistoryLawsApart holds that the checker of histories knows of reservations that are given back: where what they reserved was lost before, others lose it.
func TestHistoryLawsApart(t *testing.T) {
	straddling := call{ // is denied by another limit than the one that it has reserved
		charges: []charge{{cost: 1}, {limit: 1, cost: 1, denies: true}}, start: 49 * time.Millisecond, end: 60 * time.Millisecond, result: denied,
	}
	later, overdue := straddling, straddling
	later.start, later.end = 65*time.Millisecond, 66*time.Millisecond
	overdue.start, overdue.end = 10*time.Millisecond, 10*time.Millisecond+redisstore.DefaultBudget
	for _, test := range []struct {
		name   string
		denied call
		apart  bool
		breaks string
	}{
		{"given back after the reset", straddling, true, ""},
		{"of limits that lie together", straddling, false, "admissions"},
		{"reserved after the reset", later, true, "admissions"},
		{"given back beyond the budget", overdue, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			limit := directiveOf(t, "2,1s")
			h := history{
				limits: []store.Request{store.NewRequest(limit, "rl:global:a", 1), store.NewRequest(limit, "rl:global:b", 1)},
				calls: []call{
					at(0, allowed), at(1, allowed), at(52, allowed), at(80, allowed), at(81, allowed), test.denied,
					{charges: []charge{{limit: 1, cost: 1}}, result: indeterminate}, {charges: []charge{{limit: 1, cost: 1}}, result: indeterminate},
				},
				acts: []act{resetAt(50)}, apart: test.apart,
			}
			wantLaw(t, &h, test.breaks)
		})
	}
}

// TestHistoryLawAlone holds that the checker of histories knows what a process may let through by itself, beside what its store does.
func TestHistoryLawAlone(t *testing.T) {
	one := func(ms int) call {
		c := at(ms, unavailable)
		c.alone = solo{requests: []store.Request{{Key: "rl:global:a", Cost: 1}}, end: c.end}
		return c
	}
	back := one(1)
	back.alone.back = back.end
	for _, test := range []struct {
		name   string
		calls  []call
		acts   []act
		breaks string
	}{
		{"two by the store, and two alone", []call{at(0, allowed), at(1, allowed), one(2), one(3)}, nil, ""},
		{"three alone", []call{one(0), one(500), one(900)}, nil, "alone"},
		{"three alone, of which one was given back", []call{one(0), back, one(900)}, nil, ""},
		{"three alone, in two windows", []call{one(0), one(500), one(1100)}, nil, ""},
		{"three alone, and a reset", []call{one(0), one(500), one(900)}, []act{resetAt(700)}, ""},
		{"three alone after a reset", []call{one(800), one(850), one(900)}, []act{resetAt(700)}, "alone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := history{limits: []store.Request{store.NewRequest(directiveOf(t, "2,1s"), "rl:global:a", 1)}, calls: test.calls, acts: test.acts}
			wantLaw(t, &h, test.breaks)
		})
	}
}

// directiveOf reads what stands behind //ratelimit:global.
func directiveOf(t *testing.T, text string) *rules.Limit {
	t.Helper()
	d, err := rules.Parse("//ratelimit:global " + text)
	if err != nil {
		t.Fatal(err)
	}
	return &d.Limit
}

// wantLaw fails the test unless the history breaks one law once, or none.
func wantLaw(t *testing.T, h *history, law string) {
	t.Helper()
	found := h.violations()
	switch {
	case law == "" && len(found) > 0:
		t.Errorf("violations %q, want none", found)
	case law != "" && (len(found) != 1 || !strings.Contains(found[0], law+": ")):
		t.Errorf("violations %q, want one of %s", found, law)
	}
}

// TestHistoryLaws holds that the checker of histories finds what breaks each of its laws, and nothing where none is
// broken. The limit is 2 in a second.
func TestHistoryLaws(t *testing.T) {
	flush := []span{{450 * time.Millisecond, 460 * time.Millisecond}}
	slow, foreign, early := at(0, allowed), at(0, misconfigured), at(500, allowed)
	slow.took, foreign.why, early.at = time.Minute, "WRONGTYPE", []time.Duration{400 * time.Millisecond}
	lost := at(0, allowed).returned(50)
	lost.backFailed = true
	for _, test := range []struct {
		name    string
		options string
		calls   []call
		losses  []span
		breaks  string // the law; none if empty
	}{
		{"two in a window, and two in the next", "", []call{at(0, allowed), at(1, allowed), at(1050, allowed), at(1051, allowed)}, nil, ""},
		{"three in a window", "", []call{at(0, allowed), at(500, allowed), at(900, allowed)}, nil, "admissions"},
		{"three in a window, of which one is given back", "", []call{at(0, allowed).returned(100), at(500, allowed), at(900, allowed)}, nil, ""},
		{"three in a window, of which one is given back too late", "", []call{at(0, allowed).returned(950), at(500, allowed), at(900, allowed)}, nil, "admissions"},
		{"two before a flush and two after", "", []call{at(0, allowed), at(1, allowed), at(500, allowed), at(600, allowed)}, flush, ""},
		{"two before a flush and three after", "", []call{at(0, allowed), at(1, allowed), at(500, allowed), at(600, allowed), at(700, allowed)}, flush, "admissions"},
		{"one before a flush and three in all after", "", []call{at(0, allowed), at(500, allowed), at(600, allowed), at(700, allowed)}, flush, "admissions"},
		{"three after a flush long ago", "", []call{at(2000, allowed), at(2100, allowed), at(2200, allowed)}, flush, "admissions"},
		{"a window of the clock has twice as many", "algo=fixed-window", []call{at(900, allowed), at(950, allowed), at(1050, allowed), at(1100, allowed)}, nil, ""},
		{"five in a window of the clock and the next", "algo=fixed-window", []call{at(900, allowed), at(950, allowed), at(1050, allowed), at(1100, allowed), at(1200, allowed)}, nil, "admissions"},
		{"a bucket gains one in half a second", "algo=token-bucket", []call{at(0, allowed), at(1, allowed), at(550, allowed)}, nil, ""},
		{"a bucket gains two in half a second", "algo=gcra", []call{at(0, allowed), at(1, allowed), at(450, allowed), at(500, allowed)}, nil, "admissions"},
		{"a bucket gains all after a window", "algo=token-bucket refill=interval", []call{at(0, allowed), at(900, allowed), at(1050, allowed), at(1060, allowed)}, nil, ""},
		{"a bucket gains more than all", "algo=token-bucket refill=interval", []call{at(0, allowed), at(1, allowed), at(900, allowed), at(950, allowed), at(960, allowed)}, nil, "admissions"},

		{"denied with two charged", "", []call{at(0, allowed), at(1, allowed), at(500, denied)}, nil, ""},
		{"denied with one charged", "", []call{at(0, allowed), at(500, denied)}, nil, "denials"},
		{"denied with one charged and one lost", "", []call{at(0, indeterminate), at(1, allowed), at(500, denied)}, nil, ""},
		{"denied with one charged and one unavailable", "", []call{at(0, unavailable), at(1, allowed), at(500, denied)}, nil, "denials"},
		{"denied once the window has passed", "", []call{at(0, allowed), at(1, allowed), at(1100, denied)}, nil, "denials"},
		{"denied within a sub-window", "algo=sliding-window", []call{at(0, allowed), at(1, allowed), at(1080, denied)}, nil, ""},
		{"denied once a sub-window has passed", "algo=sliding-window", []call{at(0, allowed), at(1, allowed), at(1130, denied)}, nil, "denials"},
		{"denied though one was given back", "", []call{at(0, allowed).returned(50), at(1, allowed), at(500, denied)}, nil, "denials"},
		{"denied where a give-back failed", "", []call{lost, at(1, allowed), at(500, denied)}, nil, ""},
		{"denied where a give-back was lost", "", []call{at(0, allowed).returned(50), at(1, allowed), at(500, denied)}, flush, ""},
		{"denied by a bucket that is empty", "algo=token-bucket", []call{at(0, allowed), at(1, allowed), at(400, denied)}, nil, ""},
		{"denied by a bucket that has filled", "algo=token-bucket", []call{at(0, allowed), at(1, allowed), at(600, denied)}, nil, "denials"},
		{"denied by a bucket that never held less", "algo=gcra", []call{at(0, denied)}, nil, "denials"},

		{"a call that does not end", "", []call{slow}, nil, "budget"},
		{"a call that is refused", "", []call{foreign}, nil, "refusals"},
		{"charged before the call", "", []call{early}, nil, "receipts"},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := store.NewRequest(directiveOf(t, "2,1s "+test.options), "rl:global:a", 1)
			h := history{limits: []store.Request{req}, calls: test.calls, losses: test.losses}
			wantLaw(t, &h, test.breaks)
		})
	}
}
