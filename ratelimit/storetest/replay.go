package storetest

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/testdata/traces"
)

func testTraces(t *testing.T, s Subject) {
	replayFiles(t, s, "*.txt", func(tr trace) trace { return tr })
}

// replayFiles replays what change makes of the cases of the files that match pattern.
func replayFiles(t *testing.T, s Subject, pattern string, change func(trace) trace) {
	files, err := fs.Glob(traces.FS, pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("traces: %d files, error %v", len(files), err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(traces.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := parseTraces(text)
		if err != nil {
			t.Fatalf("%s:%v", file, err)
		}
		for _, tr := range cases {
			name := fmt.Sprintf("%s:%d", file, tr.line)
			t.Run(name, func(t *testing.T) {
				r := replay{subject: s, prefix: s.Prefix + name + ":", file: file}
				r.run(t, change(tr))
			})
		}
	}
}

// replay is one case on its way through a store.
type replay struct {
	subject  Subject
	prefix   string
	file     string
	limits   []limit
	receipts []store.Receipt // of the lines with answers
}

func (r *replay) run(t *testing.T, tr trace) {
	if tr.align > 0 {
		r.subject.Clock.Move(tr.align - time.Duration(r.subject.Clock.Now().UnixNano())%tr.align)
	}
	for _, s := range tr.steps {
		if s.limits != nil {
			r.limits = s.limits
			continue
		}
		r.subject.Clock.Move(s.advance)
		got := r.do(t, s)
		if !agrees(got, s.want) {
			t.Errorf("%s:%d: %q answers\n\t%s\nwant\n\t%s", r.file, s.line, s.text, got, s.want)
		}
	}
}

// do does one step and returns its answer.
func (r *replay) do(t *testing.T, s step) string {
	t.Helper()
	if s.back > 0 {
		if s.back > len(r.receipts) {
			t.Fatalf("%s:%d: %q: no such line before", r.file, s.line, s.text)
		}
		if err := r.subject.Store.GiveBack(context.Background(), r.receipts[s.back-1]); err != nil {
			t.Fatalf("%s:%d: %q: %v", r.file, s.line, s.text, err)
		}
		r.receipts = append(r.receipts, store.Receipt{})
		return "back"
	}
	requests := make([]store.Request, len(s.asks))
	for i, a := range s.asks {
		l := r.limits[a.limit]
		requests[i] = store.NewRequest(&l.Limit, r.prefix+l.name+"="+a.id, a.cost)
	}
	if s.reset {
		if err := r.subject.Store.Reset(context.Background(), requests); err != nil {
			t.Fatalf("%s:%d: %q: %v", r.file, s.line, s.text, err)
		}
		r.receipts = append(r.receipts, store.Receipt{})
		return "reset"
	}
	out, err := store.Take(context.Background(), r.subject.Store, requests, true)
	if err != nil {
		t.Fatalf("%s:%d: %q: %v", r.file, s.line, s.text, err)
	}
	r.receipts = append(r.receipts, out.Receipt)
	return r.format(s, requests, out)
}

// format is an outcome as a trace writes it, with all there is.
func (r *replay) format(s step, requests []store.Request, out store.Outcome) string {
	var limits []string
	answers := out.Rules
	for i, a := range s.asks {
		n := len(requests[i].Rules)
		limits = append(limits, strings.TrimSpace(r.limits[a.limit].name+" "+formatRules(answers[:n])))
		answers = answers[n:]
	}
	verb := "deny "
	if out.Allowed {
		verb = "allow "
	}
	return verb + strings.Join(limits, " | ")
}

func formatRules(answers []store.RuleOutcome) string {
	var remaining, retry, reset, delay []string
	for _, a := range answers {
		remaining = append(remaining, strconv.FormatInt(a.Remaining, 10))
		retry = append(retry, formatWait(a.RetryAfter))
		reset = append(reset, formatWait(a.ResetAfter))
		delay = append(delay, formatWait(a.Delay))
	}
	return fmt.Sprintf("remaining=%s retry=%s reset=%s wait=%s",
		strings.Join(remaining, ","), strings.Join(retry, ","), strings.Join(reset, ","), strings.Join(delay, ","))
}

// formatWait is d without the zeros that [time.Duration] ends with, and with its µ written u.
func formatWait(d time.Duration) string {
	if d == store.Never {
		return "never"
	}
	s := strings.Replace(d.String(), "µ", "u", 1)
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// agrees says whether got says all that want does: want may leave fields out.
func agrees(got, want string) bool {
	g, w := strings.Split(got, " | "), strings.Split(want, " | ")
	if len(g) != len(w) {
		return false
	}
	for i := range w {
		said := strings.Fields(g[i])
		for _, word := range strings.Fields(w[i]) {
			found := false
			for j := range said {
				if said[j] == word {
					found = true
				}
			}
			if !found {
				return false
			}
		}
	}
	return true
}
