package rules

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseData(t *testing.T) {
	const text = "//ratelimit:key 10/1s 5000,24h algo=sliding-log by=req.ID cost=n \"when=a == b\" name=x/y bucket=b prefix=p missing=allow onfail=closed"
	want := Directive{
		Name: "key",
		Limit: Limit{
			Kind:  Key,
			Rules: []Rule{{10, time.Second}, {5000, 24 * time.Hour}},
			By:    "req.ID", Cost: "n", When: "a == b",
			Name: "x/y", Bucket: "b", Prefix: "p",
			Missing: MissingAllow, OnFail: FailClosed,
		},
		Columns: map[string]int{
			"rules": 17, "algo": 37, "by": 52, "cost": 64, "when": 72, "name": 85, "bucket": 96, "prefix": 105,
			"missing": 115, "onfail": 128,
		},
	}
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse(%q): -want +got\n%s", text, diff)
	}
	if !got.Counts() {
		t.Errorf("Parse(%q).Counts() = false, want true", text)
	}
	for option, column := range got.Columns {
		if option != "rules" && text[column-2] != '=' {
			t.Errorf("Parse(%q).Columns[%q] = %d, want the column behind an =", text, option, column)
		}
	}
}

func TestParseOther(t *testing.T) {
	for text, want := range map[string]Directive{
		"//ratelimit:none":          {Name: "none", Columns: map[string]int{}},
		"//ratelimit:wrapper Other": {Name: "wrapper", Wrapper: "Other", Columns: map[string]int{"wrapper": 21}},
	} {
		got, err := Parse(text)
		if err != nil || !cmp.Equal(got, want) || got.Counts() {
			t.Errorf("Parse(%q) = %#v, %v, counts %v; want %#v", text, got, err, got.Counts(), want)
		}
	}
}

func TestParseNoDirective(t *testing.T) {
	for _, text := range []string{"", "/", "//", "user 10,1s", "ratelimit:user 10,1s", "// prose", "/* prose", "\n//ratelimit:none"} {
		_, err := Parse(text)
		var errs Errors
		if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Column != 1 {
			t.Errorf("Parse(%q) = %v, want one error in column 1", text, err)
		}
	}
}

func TestErrors(t *testing.T) {
	_, err := Parse("//ratelimit:global onfial=open 10,1s by=a")
	const want = `column 20: unknown option "onfial", want one that "rlgen help options" has; did you mean "onfail"?
column 32: found rule "10,1s" behind an option, want the rules first; write "//ratelimit:global 10,1s …"
column 38: found option by on global, want it on ip, user, key, concurrency or lock only`
	if err == nil || err.Error() != want {
		t.Errorf("Parse() = %v, want %v", err, want)
	}
	var first *Error
	if !errors.As(err, &first) || first.Column != 20 {
		t.Errorf("errors.As(%v) = %v, want the first", err, first)
	}
}

func TestLongExpression(t *testing.T) {
	const prefix = "//ratelimit:key 10,1s by="
	if _, err := Parse(prefix + strings.Repeat("a", 4096)); err != nil {
		t.Errorf("Parse of an expression of 4096 bytes = %v, want none", err)
	}
	_, err := Parse(prefix + strings.Repeat("a+", 20_000) + "a")
	const want = "column 26: option by has an expression of 40001 bytes, want at most 4096; call a function of the package in its place"
	if err == nil || err.Error() != want {
		t.Errorf("Parse = %v, want %v", err, want)
	}
}

func TestColumn(t *testing.T) {
	for _, test := range []struct {
		comment, value string
		offset         int
		want           string // what stands there
	}{
		{"//ratelimit:key 1,1s by=req.ID", "req.ID", 4, "ID"},
		{`//ratelimit:key 1,1s by="req.ID + x"`, "req.ID + x", 9, `x"`},
		{`//ratelimit:key 1,1s "by=req.ID + x"`, "req.ID + x", 9, `x"`},
		{`//ratelimit:key 1,1s by="\"a\" + x" missing=allow`, `"a" + x`, 6, `x" missing=allow`},
		{`//ratelimit:key 1,1s "by=\"\u00e4\" + x"`, `"ä" + x`, 7, `x"`},
		{`//ratelimit:key 1,1s "by=\"ä\" + x"`, `"ä" + x`, 7, `x"`},
		{"//ratelimit:key 1,1s by=`\"a\" + x`", `"a" + x`, 6, "x`"},
		{`//ratelimit:key 1,1s by="a"+x`, `"a"+x`, 4, "x"},
		{"//ratelimit:key 1,1s by=req.ID\r", "req.ID", 4, "ID\r"},
		{"//ratelimit:key 1,1s by=req.ID", "req.ID", 6, ""},
	} {
		t.Run(test.comment, func(t *testing.T) {
			d, err := Parse(test.comment)
			if err != nil || d.Limit.By != test.value {
				t.Fatalf("Parse(%q).Limit.By = %q, %v; want %q", test.comment, d.Limit.By, err, test.value)
			}
			column := Column(test.comment, "by", test.offset)
			if got := test.comment[column-1:]; got != test.want {
				t.Errorf("Column(%q, by, %d) = %d, at %q, want it at %q", test.comment, test.offset, column, got, test.want)
			}
			if got := Column(test.comment, "by", 0); got != d.Columns["by"] {
				t.Errorf("Column(%q, by, 0) = %d, want %d", test.comment, got, d.Columns["by"])
			}
		})
	}
	for _, comment := range []string{"//ratelimit:key 1,1s", "// by=x", ""} {
		if got := Column(comment, "by", 0); got != 0 {
			t.Errorf("Column(%q, by, 0) = %d, want 0", comment, got)
		}
	}
}

func TestRuleString(t *testing.T) {
	for want, r := range map[string]Rule{
		"10,1s":                        {10, time.Second},
		"1,1ms":                        {1, time.Millisecond},
		"1,1.5s":                       {1, 1500 * time.Millisecond},
		"1,1m":                         {1, time.Minute},
		"1,1m0.5s":                     {1, time.Minute + 500*time.Millisecond},
		"1,10m":                        {1, 10 * time.Minute},
		"1,1h":                         {1, time.Hour},
		"1,1h30m":                      {1, 90 * time.Minute},
		"1,1h0m1s":                     {1, time.Hour + time.Second},
		"1,20h":                        {1, 20 * time.Hour},
		"1,24h":                        {1, day},
		"1,47h59m59s":                  {1, 2*day - time.Second},
		"1,2d":                         {1, 2 * day},
		"1,10d10h10m":                  {1, 10*day + 10*time.Hour + 10*time.Minute},
		"1,366d":                       {1, maxWindow},
		"0,0s":                         {},
		"-1,-24h":                      {-1, -day},
		"1,106751d23h47m16.854775807s": {1, math.MaxInt64},
	} {
		if got := r.String(); got != want {
			t.Errorf("Rule{%d, %d}.String() = %q, want %q", r.Count, r.Window, got, want)
		}
	}
}

func TestUnknownValues(t *testing.T) {
	l := Limit{Kind: 99, Rules: []Rule{{}}, Algorithm: 99, Missing: 99, OnFail: 99}
	if got, want := l.String(), "Kind(99) 0,0s algo=algo(99) missing=missing(99) onfail=onfail(99)"; got != want {
		t.Errorf("Limit.String() = %q, want %q", got, want)
	}
	if got, want := Kind(0).String()+Algorithm(9).String()+Missing(9).String()+OnFail(9).String(), "Kind(0)Algorithm(9)Missing(9)OnFail(9)"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if got := (Directive{}).String(); got != Namespace {
		t.Errorf("Directive{}.String() = %q, want %q", got, Namespace)
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"ip", "user", "global", "key", "none", "wrapper", "sliding-log"}
	for word, want := range map[string]string{
		"user":                       "user",
		"USER":                       "user",
		"usr":                        "user",
		"users":                      "user",
		"uesr":                       "user",
		"userID":                     "user",
		"glob":                       "global",
		"gobal":                      "global",
		"gloabl":                     "global",
		"gaballe":                    "",
		"wrap":                       "wrapper",
		"wr":                         "",
		"ipp":                        "ip",
		"id":                         "ip",
		"xy":                         "",
		"x":                          "",
		"":                           "",
		"tenant":                     "",
		"sliding_log":                "sliding-log",
		"slidinglog":                 "sliding-log",
		strings.Repeat("user", 1000): "",
	} {
		if got := Suggest(word, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
}

// generateLimit makes any limit that a directive can say.
func generateLimit(t *rapid.T) Limit {
	word := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`))
	sound := func(text string) bool { return checkExpression(text) == nil }
	expr := rapid.OneOf(rapid.Just(""), rapid.StringMatching("req(\\.[A-Zäöü][a-z]{0,3}|\\(\"[ -!#-\\[\\]-~]*\", `[ -_a-~]*`\\)|\\[' '\\]| \\+ [0-9]| == [a-z]|&&\t[a-z]){0,4}").Filter(sound))
	l := Limit{
		Kind:   Kind(rapid.IntRange(int(IP), int(Lock)).Draw(t, "kind")),
		Cost:   expr.Draw(t, "cost"),
		When:   expr.Draw(t, "when"),
		Name:   word.Draw(t, "name"),
		Bucket: word.Draw(t, "bucket"),
		Prefix: word.Draw(t, "prefix"),
		OnFail: OnFail(rapid.IntRange(0, len(onFailNames)-1).Draw(t, "onfail")),
		Wait:   time.Duration(rapid.Int64Range(0, 3).Draw(t, "wait")) * 1500 * time.Millisecond,
		Deny:   Deny(rapid.IntRange(0, len(denyNames)-1).Draw(t, "deny")),
	}
	if l.Kind.Holds() {
		generateHold(t, &l, expr)
		return l
	}
	l.Charge = Charge(rapid.IntRange(0, len(chargeNames)-1).Draw(t, "charge"))
	l.Algorithm = rapid.SampledFrom([]Algorithm{SlidingLog, SlidingWindow, FixedWindow}).Draw(t, "algorithm")
	switch l.Algorithm {
	case SlidingWindow:
		l.Segments = rapid.Int64Range(0, MaxSegments).Draw(t, "segments")
	case FixedWindow:
		l.Start = rapid.SampledFrom([]Start{StartClock, StartFirst}).Draw(t, "start")
	}
	if l.Kind != Global {
		l.By = expr.Draw(t, "by")
		l.Missing = Missing(rapid.IntRange(0, len(missingNames)-1).Draw(t, "missing"))
	}
	if l.Kind == Key && l.By == "" {
		l.By = "req"
	}
	rule := rapid.Custom(func(t *rapid.T) Rule {
		unit := rapid.SampledFrom([]time.Duration{minWindow, time.Second, time.Minute, time.Hour, day}).Draw(t, "unit")
		extra := rapid.SampledFrom([]time.Duration{0, time.Microsecond, 1001 * time.Millisecond}).Draw(t, "extra")
		return Rule{
			Count:  rapid.Int64Range(1, l.Algorithm.known().maxCount).Draw(t, "count"),
			Window: unit*time.Duration(rapid.IntRange(1, 365).Draw(t, "units")) + extra,
		}
	})
	for _, r := range rapid.SliceOfN(rule, 1, 2*maxRules).Draw(t, "rules") {
		if rules := append(l.Rules, r); len(checkRules(&Limit{Rules: rules, Algorithm: l.Algorithm, Start: l.Start, Segments: l.Segments}, make([]string, len(rules)))) == 0 {
			l.Rules = rules
		}
	}
	return l
}

// generateHold makes l any limit that holds something.
func generateHold(t *rapid.T, l *Limit, expr *rapid.Generator[string]) {
	l.Lease = time.Duration(rapid.SampledFrom([]int64{0, 10, 1500, 86_400_000}).Draw(t, "lease")) * time.Millisecond
	l.By = expr.Draw(t, "by")
	switch l.Kind {
	case Lock:
		l.Cost = ""
		if l.By != "" {
			l.Segments = rapid.Int64Range(0, MaxSegments).Draw(t, "segments")
		}
	case Concurrency:
		l.Count = rapid.Int64Range(1, MaxConcurrency).Draw(t, "count")
		l.Per = Per(rapid.IntRange(0, len(perNames)-1).Draw(t, "per"))
		switch {
		case l.Per == PerGlobal:
			l.By = ""
		case l.Per == PerKey && l.By == "":
			l.By = "req"
		}
	}
	if l.Whose() != Global {
		l.Missing = Missing(rapid.IntRange(0, len(missingNames)-1).Draw(t, "missing"))
	}
}

func TestLimitReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := generateLimit(t)
		checkReadsBack(t, Directive{Name: l.Kind.String(), Limit: l})
		p := Policy{Type: "a.B", Method: "C", Limits: []Limit{l}}
		if err := p.Validate(); err != nil {
			t.Errorf("%v", err)
		}
	})
}

// A rule is refused exactly if some trace exists that it denies and the others allow, which small traces decide.
func TestReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.Custom(func(t *rapid.T) Rule {
			return Rule{rapid.Int64Range(1, 4).Draw(t, "count"), minWindow * time.Duration(rapid.IntRange(1, 5).Draw(t, "window"))}
		})
		a, b := rule.Draw(t, "a"), rule.Draw(t, "b")
		faults := checkRules(&Limit{Rules: []Rule{a, b}}, []string{"a", "b"})
		if got, want := len(faults) > 0, !binds(a, b) || !binds(b, a); got != want {
			t.Errorf("checkRules(%v, %v) = %v, want a fault: %v", a, b, faults, want)
		}
	})
}

// A bucket is refused exactly if it never denies what the other allows: small traces find what two of one burst differ in.
func TestReachOfBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.Custom(func(t *rapid.T) Rule {
			return Rule{rapid.Int64Range(1, 3).Draw(t, "count"), minWindow * time.Duration(rapid.IntRange(1, 4).Draw(t, "window"))}
		})
		a, b := rule.Draw(t, "a"), rule.Draw(t, "b")
		l := &Limit{Rules: []Rule{a, b}, Algorithm: GCRA, Burst: rapid.Int64Range(0, 3).Draw(t, "burst")}
		faults := checkRules(l, []string{"a", "b"})
		if got, want := len(faults) > 0, !bucketBinds(l, a, b) || !bucketBinds(l, b, a); got != want {
			t.Errorf("checkRules(%v, %v) = %v, want a fault: %v", l, a, faults, want)
		}
	})
}

// bucketBinds reports whether bucket a denies a call that bucket b allows, where somebody asks every millisecond for all
// that b has. Buckets hold units of 1/12 token, which windows up to 4 ms divide.
func bucketBinds(l *Limit, a, b Rule) bool {
	gain := func(r Rule) int64 { return 12 * r.Count / int64(r.Window/minWindow) }
	inA, inB := 12*l.Capacity(a), 12*l.Capacity(b)
	for range 200 {
		cost := inB / 12 * 12
		if cost > inA {
			return true
		}
		inA = min(12*l.Capacity(a), inA-cost+gain(a))
		inB = min(12*l.Capacity(b), inB-cost+gain(b))
	}
	return false
}

// binds reports whether a denies some call at a whole millisecond that b allows.
func binds(a, b Rule) bool {
	var try func(log []time.Duration) bool
	try = func(log []time.Duration) bool {
		for now := last(log); now <= 6*minWindow; now += minWindow {
			switch {
			case !admits(b, log, now):
			case !admits(a, log, now):
				return true
			case len(log) < 8 && try(append(log[:len(log):len(log)], now)):
				return true
			}
		}
		return false
	}
	return try(nil)
}

func last(log []time.Duration) time.Duration {
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1]
}

func admits(r Rule, log []time.Duration, now time.Duration) bool {
	used := int64(0)
	for _, at := range log {
		if at > now-r.Window {
			used++
		}
	}
	return used < r.Count
}

// The words of the tables are those of the data, and each table is complete.
func TestTables(t *testing.T) {
	names := map[string]bool{}
	for _, d := range directives {
		if names[d.name] || d.kind != 0 && d.kind.String() != d.name || (d.kind != 0) != (d.form != formNothing && d.form != formWrapper) {
			t.Errorf("directive %q: its name stands twice, is not its kind's, or its form is another's", d.name)
		}
		names[d.name] = true
		for _, need := range d.needs {
			if o, ok := findOption(need); !ok || !o.suit(d.name) {
				t.Errorf("directive %q needs option %q, which it cannot have", d.name, need)
			}
		}
		if _, err := Parse(d.example()); err != nil {
			t.Errorf("Parse(%q): %v", d.example(), err)
		}
	}
	for kind := IP; int(kind) < len(kindNames); kind++ {
		if !names[kind.String()] {
			t.Errorf("kind %v has no directive", kind)
		}
	}
	seen := map[string]bool{}
	for _, o := range options {
		if seen[o.name] {
			t.Errorf("option %q stands twice", o.name)
		}
		seen[o.name] = true
		for _, d := range o.suits {
			if !names[d] {
				t.Errorf("option %q suits %q, which is no directive", o.name, d)
			}
		}
		var l Limit
		if f := o.parse(&l, o.example); f != nil {
			t.Errorf("option %s: %s", o.pair(o.example), f.msg)
		}
	}
}

// A ban is read from elsewhere as the option has it.
func TestParseBan(t *testing.T) {
	const want = ", want a duration of 1ms to 366d in whole microseconds, such as 15m"
	for text, ban := range map[string]time.Duration{"1ms": time.Millisecond, "15m": 15 * time.Minute, "1d12h": 36 * time.Hour, "366d": MaxBan} {
		if got, err := ParseBan(text); got != ban || err != nil {
			t.Errorf("ParseBan(%q) = %v, %v, want %v", text, got, err, ban)
		}
	}
	for _, text := range []string{"", "0s", "1ns", "999us", "1ms1ns", "367d", "90000h", "-1s", "15", "soon"} {
		if got, err := ParseBan(text); err == nil || err.Error() != "found "+strconv.Quote(text)+want {
			t.Errorf("ParseBan(%q) = %v, %v, want an error that ends with %q", text, got, err, want)
		}
	}
}
