package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// at is a call of cost 1 to limit 0 that lasts from ms to ms+1.
func at(ms int, r result) call {
	start := time.Duration(ms) * time.Millisecond
	return call{
		charges: []charge{{cost: 1, denies: r == denied}}, start: start, end: start + time.Millisecond, took: time.Millisecond, result: r,
	}
}

// returned is the call, given back from ms to ms+1.
func (c call) returned(ms int) call {
	c.backStart = time.Duration(ms) * time.Millisecond
	c.backEnd = c.backStart + time.Millisecond
	return c
}

// TestHistoryLaws holds that the checker of histories finds what breaks each of its laws, and nothing where none is
// broken. The limit is 2 in a second.
func TestHistoryLaws(t *testing.T) {
	directive := func(options string) store.Request {
		d, err := rules.Parse("//ratelimit:global 2,1s " + options)
		if err != nil {
			t.Fatal(err)
		}
		return store.NewRequest(&d.Limit, "rl:global:a", 1)
	}
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
			h := history{limits: []store.Request{directive(test.options)}, calls: test.calls, losses: test.losses}
			found := h.violations()
			switch {
			case test.breaks == "" && len(found) > 0:
				t.Errorf("violations %q, want none", found)
			case test.breaks != "" && (len(found) != 1 || !strings.Contains(found[0], test.breaks+": ")):
				t.Errorf("violations %q, want one of %s", found, test.breaks)
			}
		})
	}
}
