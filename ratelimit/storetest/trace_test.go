package storetest

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/testdata/traces"
)

func TestParseTraces(t *testing.T) {
	text := "# why\n\nlimit user 2,1s 5,1m\nlimit global 9,1h\ntake\n+1ms user=alice 2 global 0\n-1s back 1\nlimit user 1,1s\n" +
		"+0s user= 1\n+0s reset user=bob\n----\nallow  user\nback\ndeny user\nreset\n\n\nlimit 1,1s\ntake 1m\n+0s bob 1\n----\nallow\n"
	user := limit{"user", rules.Limit{Kind: rules.Global, Rules: []rules.Rule{{Count: 2, Window: time.Second}, {Count: 5, Window: time.Minute}}}}
	global := limit{"global", rules.Limit{Kind: rules.Global, Rules: []rules.Rule{{Count: 9, Window: time.Hour}}}}
	one := rules.Limit{Kind: rules.Global, Rules: []rules.Rule{{Count: 1, Window: time.Second}}}
	want := []trace{
		{line: 3, steps: []step{
			{line: 3, text: "limit user 2,1s 5,1m", limits: []limit{user}},
			{line: 4, text: "limit global 9,1h", limits: []limit{user, global}},
			{line: 6, text: "+1ms user=alice 2 global 0", advance: time.Millisecond, asks: []ask{{0, "alice", 2}, {1, "", 0}}, want: "allow user"},
			{line: 7, text: "-1s back 1", advance: -time.Second, back: 1, want: "back"},
			{line: 8, text: "limit user 1,1s", limits: []limit{{"user", one}, global}},
			{line: 9, text: "+0s user= 1", asks: []ask{{0, "", 1}}, want: "deny user"},
			{line: 10, text: "+0s reset user=bob", asks: []ask{{0, "bob", 0}}, reset: true, want: "reset"},
		}},
		{line: 18, align: time.Minute, steps: []step{
			{line: 18, text: "limit 1,1s", limits: []limit{{"", one}}},
			{line: 20, text: "+0s bob 1", asks: []ask{{0, "bob", 1}}, want: "allow"},
		}},
	}
	got, err := parseTraces([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(trace{}, step{}, limit{}, ask{})); diff != "" {
		t.Errorf("parseTraces (-want +got):\n%s", diff)
	}
}

func TestParseTracesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"alice 1":                         `1: found "alice 1", want a limit or take`,
		"limit x,1s":                      `1: column 20: rule "x,1s" has the count "x", want digits only, such as 10,1s or 5000,24h`,
		"limit 1,x":                       `1: column 22: rule "1,x" has a window without a number, want one such as 500ms, 1s or 24h`,
		"limit a 1,1s\ntake\n+0s b 1":     `3: limit "b" is not declared`,
		"limit 1,1s\ntake\nalice 1":       `3: time: invalid duration "alice"`,
		"limit 1,1s\ntake soon":           `2: time: invalid duration "soon"`,
		"limit 1,1s\ntake 0s":             `2: found take 0s, want a time above 0`,
		"limit 1,1s\ntake\n+0s alice":     `3: found "+0s alice", want a step and pairs of an id and a cost`,
		"limit 1,1s\ntake\n+0s a 1\n----": `case at line 1: no answer to line 3, "+0s a 1"`,
		"limit 1,1s\ntake\n----\nallow":   `case at line 1: answer "allow" to no line`,
	} {
		if _, err := parseTraces([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("parseTraces(%q) = %v, want %s", text, err, want)
		}
	}
}

// TestTracesExplain: the traces of every algorithm, and of each of its forms, show the same subjects.
func TestTracesExplain(t *testing.T) {
	for _, algorithm := range []string{
		"compact-log", "fixed-window", "gcra", "leaky-bucket", "leaky-bucket_queue", "sliding-log", "sliding-window", "token-bucket", "token-bucket_interval",
	} {
		for _, subject := range []string{"Burst", "Steady", "Boundary", "Cost", "Denied", "Give back"} {
			file := algorithm + "_" + strings.ReplaceAll(strings.ToLower(subject), " ", "-") + ".txt"
			if _, err := fs.Stat(traces.FS, file); err == nil {
				continue
			}
			text, err := fs.ReadFile(traces.FS, algorithm+".txt")
			if err != nil || !regexp.MustCompile(`(?m)^#.*\b`+subject+`: `).Match(text) {
				t.Errorf("neither is there a %s, nor has %s.txt a comment with %q (%v)", file, algorithm, subject+": ", err)
			}
		}
	}
}

func TestAgrees(t *testing.T) {
	for _, test := range []struct {
		got, want string
		agrees    bool
	}{
		{"allow remaining=1 retry=0s reset=1s", "allow remaining=1", true},
		{"allow remaining=1 retry=0s reset=1s", "allow", true},
		{"allow remaining=1 retry=0s reset=1s", "deny", false},
		{"allow remaining=1 retry=0s reset=1s", "allow remaining=2", false},
		{"deny a retry=1s | b retry=0s", "deny a | b retry=0s", true},
		{"deny a retry=1s | b retry=0s", "deny a retry=0s | b", false},
		{"deny a retry=1s | b retry=0s", "deny a", false},
		{"back", "back", true},
	} {
		if got := agrees(test.got, test.want); got != test.agrees {
			t.Errorf("agrees(%q, %q) = %v, want %v", test.got, test.want, got, test.agrees)
		}
	}
}

func TestFormatWait(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Microsecond: "1us", 1500 * time.Microsecond: "1.5ms", time.Minute: "1m", time.Hour: "1h",
		time.Hour + time.Second: "1h0m1s", 90 * time.Minute: "1h30m", 20 * time.Second: "20s", 10 * time.Minute: "10m",
		store.Never: "never",
	} {
		if got := formatWait(d); got != want {
			t.Errorf("formatWait(%d) = %q, want %q", d, got, want)
		}
	}
}
