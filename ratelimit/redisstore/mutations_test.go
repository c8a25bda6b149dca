package redisstore_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// breaks makes TestMutations break the code and run the tests, which takes minutes:
//
//	go test ./ratelimit/redisstore -run '^TestMutations$' -v -mutations -timeout 30m
var breaks = flag.Bool("mutations", false, "TestMutations: break the code, and see the tests of faults fail")

// mutation is a mistake that would let a fault do harm, and the test that must fail on code that makes it. Those of the
// script, such as a time to live that is taken for the clock and a charge before the check, are [flaws].
type mutation struct {
	name     string
	old, new string // in one Go file of mutated packages, once; MUTANT in the new one is true
	pkg      string // of the test
	test     string
}

// always are the mutations that every run of the tests makes: of what would do harm most, those that are made in Go.
var always = []string{
	"go-redis sends again by itself, as it does by default",
	"what one slot reserved is not given back where another denies",
	"no breaker",
	"NOPERM is taken for a server that is down",
}

// alwaysFlaws are those that are made in the script, as all flaws are in every run.
var alwaysFlaws = []string{
	"an expiry that decides: a window that ends when its key does",
	"a retry-after that is the key's time to live",
	"a denied call that is charged",
}

// mutable are the directories in whose files mutations are made.
var mutable = []string{".", "../internal/rediscall", ".."}

var mutations = []mutation{
	{"go-redis sends again by itself, as it does by default",
		`func (command) NoRetry() bool { return true }`, `func (command) NoRetry() bool { return !MUTANT }`, ".", "TestLostReply"},
	{"a call whose answer is lost is sent again",
		`return meaning{store.Indeterminate, giveUp, ""}
	case errors.Is(err, context.Canceled)`, `return meaning{store.Unavailable, again, ""}
	case errors.Is(err, context.Canceled)`, ".", "TestLostReply"},
	{"what one slot reserved is not given back where another denies",
		`if status != done || err != nil {`, `if status != done && !MUTANT || err != nil {`, ".", "TestDeniedAcrossSlots"},
	{"what one slot reserved is not given back where another's answer is lost",
		`if status != done || err != nil {`, `if err == nil && status != done {`, ".", "TestLostReservation"},
	{"what may have been charged is not given back",
		`return errors.As(f.err, &lost) && lost.Class == store.Indeterminate`, `return false && errors.As(f.err, &lost)`, ".", "TestLostReservation"},
	{"calls outlast their budget",
		`		s.budget = d
		return nil`, `		s.budget = 20 * d
		return nil`, ".", "TestHostileOptions"},
	{"calls outlast their budget by what a busy machine might",
		`w.timer.Reset(time.Until(w.ends))`, `w.timer.Reset(time.Until(w.ends) + 300*time.Millisecond)`, ".", "TestBudgetByTheClock"},
	{"what the server has surely not executed is not sent again",
		`return m.reaction == again || c.MayRepeat`, `return c.MayRepeat`, ".", "TestBudgetByTheClock"},
	{"what the server has not executed is sent again at once, and again",
		`wait = min(2*wait, mostWait)`, `wait = min(wait, mostWait)`, ".", "TestBudgetByTheClock"},
	{"a refusal is remembered for ever",
		`if r != nil && r.latest.Load() != nil {`, `if r != nil && r.latest.Load() == nil {`, "../internal/rediscall", "TestRefusal"},
	{"no breaker",
		`return c.ConsecutiveFailures >= trip`, `return !MUTANT && c.ConsecutiveFailures >= trip`, ".", "TestBreaker"},
	{"one breaker for all servers of a client",
		`if s.alone.met.Load() {`, `if false {`, ".", "TestBreakerOfEachServer"},
	{"NOPERM is taken for a server that is down",
		`{"NOPERM", anybody, meaning{store.Misconfigured, giveUp, grant}}`,
		`{"NOPERM", anybody, meaning{map[bool]store.Class{false: store.Misconfigured, true: store.Unavailable}[MUTANT], giveUp, grant}}`, ".", "TestNoPermissionIsNotOpen"},
	{"a refusal is open, as its limit's onfail says of a server that is down",
		`if misconfigured(err) {
		g.limiter.health.refused`, `if !MUTANT && misconfigured(err) {
		g.limiter.health.refused`, ".", "TestNoPermissionIsNotOpen"},
	{"a breaker that a refusal opens",
		`IsSuccessful: func(err error) bool { return err == nil || refuses(err) },`, `IsSuccessful: func(err error) bool { return err == nil },`,
		".", "TestBreakerKeepsFromRefusalsAndCallers"},
	{"a call that has ended is sent all the same",
		`return s.state.CompareAndSwap(waiting, abandoned) || s.state.Load() == abandoned`, `return s.state.Load() != written`,
		"../internal/rediscall", "TestAbandonedIsNeverSent"},
	{"a call that ends is taken back while it is written",
		`return s.state.CompareAndSwap(waiting, abandoned) || s.state.Load() == abandoned`, `if s.state.Load() == written {
		return false
	}
	s.state.Store(abandoned)
	return true`,
		"../internal/rediscall", "TestSendingIsDecidedOnce"},
	{"a caller who leaves a shared script before it is written is in it",
		`if r.state.CompareAndSwap(queued, loaded) {`, `if r.state.CompareAndSwap(queued, loaded) || true {`, ".", "TestLeavingACrowd"},
	{"a pipeline that is sent again has scripts executed twice",
		`if c.known {
		return nothing
	}`, `if c.known && !MUTANT {
		return nothing
	}`, ".", "TestBudgetByTheClock"},
	{"a script that has moved ends those on their way to another server",
		`if p.open == 0 && p.restless {`, `if p.restless {`, ".", "TestBudgetByTheClock"},
	{"a pipeline is told of when all of it is done",
		`if c.call.over() {
		p.over(c.place)`, `if c.call.over() && p.open == 0 {
		p.over(c.place)`, ".", "TestBudgetByTheClock"},
	{"a script that goes on by itself keeps its place",
		`if r.first.call.Once(&r.span) {`, `if r.first.call.Once(&r.span) || true {`, ".", "TestBudgetByTheClock"},
	{"a script that a hook drops is a denial",
		`if len(reply) == 0 {
		return nil, errReply
	}
	now`, `if len(reply) == 0 {
		return nil, nil
	}
	now`, ".", "TestHostileHooks"},
	{"callers wait for one whose client heeds no context",
		`r.report(errOverdue)
	l.release(r)`, `r.report(errOverdue)`, ".", "TestLateHook"},
	{"a caller waits for a client that heeds no context",
		`return o.ContextTimeoutEnabled && `, `return `, ".", "TestLateHook"},
	{"callers wait for such a client again and again",
		`if time.Since(r.budget) > tardy {`, `if false {`, ".", "TestLateHookIsAwaitedOnce"},
	{"a connection that the server closes to an unknown client is a server that is down",
		`said != nil && m.class`, `said == nil && m.class`, ".", "TestLockedOut"},
	{"no script's text after SCRIPT FLUSH",
		`if m.reaction == load && !c.told && c.Script.Eval[0] != nil {`, `if false {`, ".", "TestLostReply"},
	{"READONLY is taken for a lost answer",
		`{"READONLY", anybody, meaning{store.Unavailable, again, ""}}`, `{"READONLY", anybody, meaning{store.Indeterminate, giveUp, ""}}`, ".", "TestServerStates"},
	{"a client whose hook panics ends the program",
		`if p := recover(); p != nil {
			reply, err`, `if p := any(nil); p != nil {
			reply, err`, ".", "TestPanickingClient"},
}

// TestMutations breaks the code in one place at a time and runs the test that is to notice, for a minute at most: some mistakes have a test stand still. Without -mutations it holds
// only that the places are there.
func TestMutations(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			overlay := overlay(t, map[string]string{m.name: "true"})
			if !*breaks {
				return
			}
			out, err := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-failfast", "-timeout", "60s", "-run", "^"+m.test+"$", m.pkg).CombinedOutput()
			m.wantNoticed(t, out, err)
		})
	}
}

// TestMutationsAlways makes the mutations that would do most harm, all of them in one program, which is told which of them it is to have.
func TestMutationsAlways(t *testing.T) {
	if testing.Short() || *breaks {
		t.Skip("builds the tests anew")
	}
	const mutant = "RATELIMIT_TEST_MUTANT"
	if os.Getenv(mutant) != "" {
		t.Skip("the code is broken already")
	}
	for _, name := range alwaysFlaws {
		flawNamed(t, name)
	}
	has := make(map[string]string)
	for _, name := range always {
		has[name] = fmt.Sprintf("(os.Getenv(%q) == %q)", mutant, name)
	}
	program := filepath.Join(t.TempDir(), "mutants")
	if out, err := exec.Command("go", "test", "-c", "-o", program, "-overlay", overlay(t, has), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range always {
		t.Run(name, func(t *testing.T) {
			m := mutationNamed(t, name)
			cmd := exec.Command(program, "-test.failfast", "-test.timeout", "120s", "-test.run", "^"+m.test+"$")
			cmd.Env = append(os.Environ(), mutant+"="+name)
			out, err := cmd.CombinedOutput()
			m.wantNoticed(t, out, err)
		})
	}
}

// wantNoticed fails the test unless the one that is to notice the mutation has failed.
func (m *mutation) wantNoticed(t *testing.T, out []byte, err error) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%s passes, want it to fail:\n%s", m.test, out)
	case !bytes.Contains(out, []byte("--- FAIL: "+m.test)) && !bytes.Contains(out, []byte("panic: ")):
		t.Errorf("%s does not run:\n%s", m.test, out)
	default:
		t.Logf("%s notices", m.test)
	}
}

func mutationNamed(t *testing.T, name string) *mutation {
	t.Helper()
	i := slices.IndexFunc(mutations, func(m mutation) bool { return m.name == name })
	if i < 0 {
		t.Fatalf("there is no mutation %q", name)
	}
	return &mutations[i]
}

// overlay writes files with mutations, by name, each of which has what stands there for MUTANT, and what go build needs to take them in place of the originals.
func overlay(t *testing.T, has map[string]string) string {
	t.Helper()
	texts := make(map[string]string)
	for name, mutant := range has {
		m := mutationNamed(t, name)
		path, text := m.find(t)
		if changed, ok := texts[path]; ok {
			text = changed
		}
		texts[path] = strings.Replace(text, m.old, strings.ReplaceAll(m.new, "MUTANT", mutant), 1)
	}
	dir, replace := t.TempDir(), make(map[string]string)
	for path, text := range texts {
		if strings.Contains(text, "os.Getenv") && !strings.Contains(text, `"os"`) {
			text = strings.Replace(text, "\nimport ", "\nimport \"os\"\n\nimport ", 1)
		}
		replace[path] = filepath.Join(dir, fmt.Sprint("mutant", len(replace), ".go"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// find returns the file in which the old text stands.
func (m *mutation) find(t *testing.T) (path, text string) {
	t.Helper()
	places := 0
	for _, dir := range mutable {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			bytes, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(bytes), m.old); n > 0 {
				places += n
				if path, err = filepath.Abs(file); err != nil {
					t.Fatal(err)
				}
				text = string(bytes)
			}
		}
	}
	if places != 1 {
		t.Fatalf("%q stands in %d places, want one: write the mutation anew", m.old, places)
	}
	return path, text
}
