package recall_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/internal/recall"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

func request(key string, cost int64, windows ...time.Duration) *store.Request {
	req := &store.Request{Key: key, Cost: cost}
	for _, w := range windows {
		req.Rules = append(req.Rules, rules.Rule{Count: 100, Window: w})
	}
	return req
}

func retries(waits ...time.Duration) (answers []store.RuleOutcome) {
	for _, w := range waits {
		answers = append(answers, store.RuleOutcome{RetryAfter: w})
	}
	return answers
}

// TestUsed holds that what is remembered of a window is never less than what was let through in it, nor more than what was in
// a window a seventh longer, and that Frees is tight.
func TestUsed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		windows := []time.Duration{time.Second, time.Duration(rapid.Int64Range(1, 1e6).Draw(t, "window")) * time.Microsecond}
		table, now := recall.New(), time.Duration(0)
		type admission struct {
			at   time.Duration
			cost int64
		}
		var admissions []admission
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, 4e8).Draw(t, "step"))
			cost := rapid.Int64Range(0, 5).Draw(t, "cost")
			table.Admit(now, request("a", cost, windows...))
			admissions = append(admissions, admission{now, cost})
			got := table.Get("a")
			for i, w := range windows {
				least, most := int64(0), int64(0)
				for _, a := range admissions {
					if a.at > now-w {
						least += a.cost
					}
					if a.at > now-w-w/7-time.Microsecond {
						most += a.cost
					}
				}
				rule := rules.Rule{Count: 100, Window: w}
				used := got.Used(now, i, rule)
				if used < least || used > most {
					t.Fatalf("Used of %v at %v = %d, want %d to %d", w, now, used, least, most)
				}
				left := rapid.Int64Range(0, 20).Draw(t, "left")
				wait := got.Frees(now, i, rule, left)
				if n := got.Used(now+wait, i, rule); n > left {
					t.Fatalf("Frees(%d) = %v, after which %d are in the window", left, wait, n)
				}
				if wait > 0 && got.Used(now+wait-1, i, rule) <= left {
					t.Fatalf("Frees(%d) = %v, want it as short as can be", left, wait)
				}
			}
		}
	})
}

// TestOneAdmissionIsExact holds that a permit leaves the window when the window has passed, where no other followed it.
func TestOneAdmissionIsExact(t *testing.T) {
	for _, window := range []time.Duration{time.Millisecond, time.Second, time.Minute} {
		table, rule := recall.New(), rules.Rule{Count: 1, Window: window}
		table.Admit(12345678, request("a", 1, window))
		got := table.Get("a")
		if wait := got.Frees(12345678, 0, rule, 0); wait != window {
			t.Errorf("Frees of %v = %v, want the window", window, wait)
		}
	}
}

func TestDenied(t *testing.T) {
	table := recall.New()
	const now = time.Hour
	table.Deny(now, request("a", 2, time.Second, time.Minute), retries(0, time.Second))
	for _, test := range []struct {
		cost int64
		rule int
		at   time.Duration
		want time.Duration
	}{
		{2, 1, now, time.Second},
		{3, 1, now + time.Millisecond, 999 * time.Millisecond},
		{2, 0, now, 0},
		{1, 1, now, 0}, // less may pass
		{0, 1, now, 0},
		{2, 1, now + time.Second, 0},
	} {
		got := table.Get("a")
		if wait := got.Denied(test.at, test.rule, test.cost); wait != test.want {
			t.Errorf("Denied(%v, rule %d, cost %d) = %v, want %v", test.at, test.rule, test.cost, wait, test.want)
		}
	}
	table.Deny(now, request("a", 5, time.Second, time.Minute), retries(0, time.Minute))
	if got := table.Get("a"); got.Denied(now, 1, 2) != time.Second {
		t.Error("a denial of a larger cost has displaced that of a smaller one")
	}
	table.Deny(now, request("never", 5, time.Second), retries(store.Never))
	if got := table.Get("never"); got.Denied(now, 0, 5) != 0 {
		t.Error("a cost that never passes is remembered as a denial")
	}
	table.GiveBack(now, request("a", 1, time.Second, time.Minute))
	if got := table.Get("a"); got.Denied(now, 1, 2) != 0 {
		t.Error("a denial outlasts a give-back")
	}
}

// TestSettle holds that what is told later counts from when it was let through, against the rules that see it, and that a denial outlasts it.
func TestSettle(t *testing.T) {
	const now = time.Hour
	for _, test := range []struct {
		rule int
		age  time.Duration
		want [2]int64
	}{
		{-1, 0, [2]int64{3, 3}},
		{-1, time.Second, [2]int64{0, 3}},
		{-1, time.Minute, [2]int64{0, 0}},
		{0, 0, [2]int64{3, 0}},
		{1, 0, [2]int64{0, 3}},
	} {
		table, req := recall.New(), request("a", 1, time.Second, time.Minute)
		table.Deny(now, req, retries(0, 2*time.Second))
		table.Settle(now, req, test.rule, 3, test.age)
		got := table.Get("a")
		for i, rule := range req.Rules {
			if n := got.Used(now, i, rule); n != test.want[i] {
				t.Errorf("Used of %v after Settle of rule %d, %v ago = %d, want %d", rule, test.rule, test.age, n, test.want[i])
			}
		}
		if wait := got.Denied(now, 1, 1); wait != 2*time.Second {
			t.Errorf("Denied after Settle = %v, want 2s", wait)
		}
	}
}

// TestAdd holds that what is added to a record counts in it as what was let through does, and not in the table.
func TestAdd(t *testing.T) {
	const now = time.Hour
	table, req := recall.New(), request("a", 1, time.Second, time.Minute)
	for range 2 {
		got := table.Get("a")
		if got.Binds(now, req.Rules) {
			t.Error("what was added to a record is known to the table")
		}
		got.Add(now, req, 3)
		for i, rule := range req.Rules {
			if n, wait := got.Used(now, i, rule), got.Frees(now, i, rule, 2); n != 3 || wait != rule.Window {
				t.Errorf("Used of %v = %d, free in %v, want 3, and a window", rule, n, wait)
			}
		}
	}
}

func TestGiveBack(t *testing.T) {
	table, rule := recall.New(), rules.Rule{Count: 100, Window: time.Second}
	for at := range 5 {
		table.Admit(time.Duration(at)*100*time.Millisecond, request("a", 2, time.Second))
	}
	for back, want := range map[int64]int64{0: 10, 3: 7} {
		table.GiveBack(500*time.Millisecond, request("a", back, time.Second))
		if got := table.Get("a"); back > 0 && got.Used(500*time.Millisecond, 0, rule) != want {
			t.Errorf("Used after a give-back of %d = %d, want %d", back, got.Used(500*time.Millisecond, 0, rule), want)
		}
	}
	table.GiveBack(500*time.Millisecond, request("a", 50, time.Second))
	if got := table.Get("a"); got.Used(500*time.Millisecond, 0, rule) != 0 {
		t.Error("more is given back than was let through, and something is left")
	}
	table.GiveBack(0, request("unknown", 1, time.Second))
	if got := table.Get("unknown"); got.Binds(0, []rules.Rule{rule}) {
		t.Error("a give-back has made a key known")
	}
}

// TestBounded holds that a table remembers no more than it has room for, and the keys that it heard of last.
func TestBounded(t *testing.T) {
	table, rule := recall.New(), []rules.Rule{{Count: 100, Window: 24 * time.Hour}}
	const keys = 4 * recall.MaxKeys
	for i := range keys {
		table.Admit(time.Duration(i), request(fmt.Sprint(i), 1, rule[0].Window))
		table.Admit(time.Duration(i), request("steady", 1, rule[0].Window))
	}
	known := 0
	for i := range keys {
		if got := table.Get(fmt.Sprint(i)); got.Binds(keys, rule) {
			known++
		}
	}
	if known > recall.MaxKeys || known < recall.MaxKeys/2 {
		t.Errorf("%d keys are known, want at most %d, and the half of them at least", known, recall.MaxKeys)
	}
	if got := table.Get("steady"); got.Used(keys, 0, rule[0]) != keys {
		t.Errorf("Used of a key that is heard of all the time = %d, want %d", got.Used(keys, 0, rule[0]), keys)
	}
}

func TestNoAllocations(t *testing.T) {
	table, req := recall.New(), request("a", 1, time.Second, time.Minute)
	answers := retries(time.Second, 0)
	table.Admit(0, req)
	if n := testing.AllocsPerRun(1000, func() {
		table.Admit(time.Second, req)
		table.Deny(time.Second, req, answers)
		table.GiveBack(time.Second, req)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkAdmit(b *testing.B) {
	table, req := recall.New(), request("rl:user=alice:orders.Orders-Create", 1, time.Second, time.Minute)
	b.ReportAllocs()
	for i := range b.N {
		table.Admit(time.Duration(i)*1000, req)
	}
}

func BenchmarkDeny(b *testing.B) {
	table, req := recall.New(), request("rl:user=alice:orders.Orders-Create", 1, time.Second, time.Minute)
	answers := retries(time.Second, 0)
	b.ReportAllocs()
	for i := range b.N {
		table.Deny(time.Duration(i)*1000, req, answers)
	}
}
