package redisstore_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/testdata/suite"
)

// mutation is a mistake that would let a fault do harm, and the test that must fail on code that makes it. Those of the
// script, such as a time to live that is taken for the clock and a charge before the check, are [flaws].
type mutation struct {
	name     string
	old, new string // in one Go file of mutated packages, once; MUTANT in the new one is whether the mutation is on
	pkg      string // of the test
	test     string
}

// mutable are the directories in whose files mutations are made.
var mutable = []string{".", "../internal/rediscall", ".."}

var mutations = []mutation{
	{"go-redis sends again by itself, as it does by default",
		`func (command) NoRetry() bool { return true }`, `func (command) NoRetry() bool { return !MUTANT }`, ".", "TestLostReply"},
	{"a call whose answer is lost is sent again",
		`return meaning{store.Indeterminate, giveUp, ""}
	case errors.Is(err, context.Canceled)`, `if MUTANT {
			return meaning{store.Unavailable, again, ""}
		}
		return meaning{store.Indeterminate, giveUp, ""}
	case errors.Is(err, context.Canceled)`, ".", "TestLostReply"},
	{"what one slot reserved is not given back where another denies",
		`if status != done || err != nil {`, `if status != done && !MUTANT || err != nil {`, ".", "TestDeniedAcrossSlots"},
	{"what one slot reserved is not given back where another's answer is lost",
		`if status != done || err != nil {`, `if status != done && (err == nil || !MUTANT) || err != nil && !MUTANT {`, ".", "TestLostReservation"},
	{"what may have been charged is not given back",
		`return errors.As(f.err, &lost) && lost.Class == store.Indeterminate`, `return !MUTANT && errors.As(f.err, &lost) && lost.Class == store.Indeterminate`, ".", "TestLostReservation"},
	{"calls outlast their budget",
		`		s.budget = d
		return nil`, `		s.budget = d
		if MUTANT {
			s.budget = 20 * d
		}
		return nil`, ".", "TestHostileOptions"},
	{"calls outlast their budget by what a busy machine might",
		`w.timer.Reset(time.Until(w.ends))`, `w.timer.Reset(time.Until(w.ends) + map[bool]time.Duration{true: 300 * time.Millisecond}[MUTANT])`, ".", "TestBudgetByTheClock"},
	{"what the server has surely not executed is not sent again",
		`return m.reaction == again || c.MayRepeat`, `return m.reaction == again && !MUTANT || c.MayRepeat`, ".", "TestBudgetByTheClock"},
	{"what the server has not executed is sent again at once, and again",
		`wait = min(2*wait, mostWait)`, `wait = min(map[bool]time.Duration{false: 2, true: 1}[MUTANT]*wait, mostWait)`, ".", "TestBudgetByTheClock"},
	{"a refusal is remembered for ever",
		`if r != nil && r.latest.Load() != nil {`, `if r != nil && (r.latest.Load() != nil) != MUTANT {`, "../internal/rediscall", "TestRefusal"},
	{"no breaker",
		`return c.ConsecutiveFailures >= trip`, `return !MUTANT && c.ConsecutiveFailures >= trip`, ".", "TestBreaker"},
	{"one breaker for all servers of a client",
		`if s.alone.met.Load() {`, `if s.alone.met.Load() && !MUTANT {`, ".", "TestBreakerOfEachServer"},
	{"NOPERM is taken for a server that is down",
		`{"NOPERM", anybody, meaning{store.Misconfigured, giveUp, grant}}`,
		`{"NOPERM", anybody, meaning{map[bool]store.Class{false: store.Misconfigured, true: store.Unavailable}[MUTANT], giveUp, grant}}`, ".", "TestNoPermissionIsNotOpen"},
	{"a refusal is open, as its limit's onfail says of a server that is down",
		`if misconfigured(err) {
		g.limiter.health.refused`, `if !MUTANT && misconfigured(err) {
		g.limiter.health.refused`, ".", "TestNoPermissionIsNotOpen"},
	{"a breaker that a refusal opens",
		`IsSuccessful: func(err error) bool { return err == nil || refuses(err) },`, `IsSuccessful: func(err error) bool { return err == nil || !MUTANT && refuses(err) },`,
		".", "TestBreakerKeepsFromRefusalsAndCallers"},
	{"a call that has ended is sent all the same",
		`return s.state.CompareAndSwap(waiting, abandoned) || s.state.Load() == abandoned`, `if MUTANT {
		return s.state.Load() != written
	}
	return s.state.CompareAndSwap(waiting, abandoned) || s.state.Load() == abandoned`,
		"../internal/rediscall", "TestAbandonedIsNeverSent"},
	{"a call that ends is taken back while it is written",
		`return s.state.CompareAndSwap(waiting, abandoned) || s.state.Load() == abandoned`, `if MUTANT {
		if s.state.Load() == written {
			return false
		}
		s.state.Store(abandoned)
		return true
	}
	return s.state.CompareAndSwap(waiting, abandoned) || s.state.Load() == abandoned`,
		"../internal/rediscall", "TestSendingIsDecidedOnce"},
	{"a caller who leaves a shared script before it is written is in it",
		`if r.state.CompareAndSwap(queued, loaded) {`, `if r.state.CompareAndSwap(queued, loaded) || MUTANT {`, ".", "TestLeavingACrowd"},
	{"a pipeline that is sent again has scripts executed twice",
		`if c.known {
		return nothing
	}`, `if c.known && !MUTANT {
		return nothing
	}`, ".", "TestBudgetByTheClock"},
	{"a script that has moved ends those on their way to another server",
		`if p.open == 0 && p.restless {`, `if (p.open == 0 || MUTANT) && p.restless {`, ".", "TestBudgetByTheClock"},
	{"a pipeline is told of when all of it is done",
		`if c.call.over() {
		p.over(c.place)`, `if c.call.over() && (p.open == 0 || !MUTANT) {
		p.over(c.place)`, ".", "TestBudgetByTheClock"},
	{"a script that goes on by itself keeps its place",
		`if r.first.call.Once(&r.span) {`, `if r.first.call.Once(&r.span) || MUTANT {`, ".", "TestBudgetByTheClock"},
	{"a script that a hook drops is a denial",
		`if len(reply) == 0 {
		return nil, errReply
	}
	now`, `if MUTANT && len(reply) == 0 {
		return nil, nil
	}
	if len(reply) == 0 {
		return nil, errReply
	}
	now`, ".", "TestHostileHooks"},
	{"callers wait for one whose client heeds no context",
		`r.report(errOverdue)
	l.release(r)`, `r.report(errOverdue)
	if !MUTANT {
		l.release(r)
	}`, ".", "TestLateHook"},
	{"a caller waits for a client that heeds no context",
		`return o.ContextTimeoutEnabled && `, `return (o.ContextTimeoutEnabled || MUTANT) && `, ".", "TestLateHook"},
	{"callers wait for such a client again and again",
		`if time.Since(r.budget) > tardy {`, `if time.Since(r.budget) > tardy && !MUTANT {`, ".", "TestLateHookIsAwaitedOnce"},
	{"a connection that the server closes to an unknown client is a server that is down",
		`said != nil && m.class`, `(said != nil) != MUTANT && m.class`, ".", "TestLockedOut"},
	{"no script's text after SCRIPT FLUSH",
		`if m.reaction == load && !c.told && c.Script.Eval[0] != nil {`, `if !MUTANT && m.reaction == load && !c.told && c.Script.Eval[0] != nil {`, ".", "TestLostReply"},
	{"READONLY is taken for a lost answer",
		`{"READONLY", anybody, meaning{store.Unavailable, again, ""}}`, `{"READONLY", anybody, map[bool]meaning{false: {store.Unavailable, again, ""}, true: {store.Indeterminate, giveUp, ""}}[MUTANT]}`, ".", "TestServerStates"},
	{"a client whose hook panics ends the program",
		`if p := recover(); p != nil {
			reply, err`, `var p any
		if !MUTANT {
			p = recover()
		}
		if p != nil {
			reply, err`, ".", "TestPanickingClient"},
}

// mutantEnv names the mutation that is on in a program with mutations.
const mutantEnv = "RLGEN_TEST_MUTANT"

// TestMutationsApply tests that the code has the place of each mutation.
func TestMutationsApply(t *testing.T) {
	for i := range mutations {
		mutations[i].find(t)
	}
}

// TestMutations breaks the code in one place at a time, and runs the test that must fail then.
func TestMutations(t *testing.T) {
	suite.NeedLong(t, "it builds programs with mutations, and runs a test for each")
	if os.Getenv(mutantEnv) != "" {
		t.Skip("the code has mutations already")
	}
	t.Parallel()
	for _, p := range mutants(t) {
		program := p.build(t)
		for _, m := range p.mutations {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				m.wantNoticed(t, program)
			})
		}
	}
}

// wantNoticed runs the test of the mutation in a program that has it, until it fails. The test has a minute: some
// mutations make it hang, and some are noticed only if goroutines meet in the right moment.
// If the test skips, for it needs a program that is not installed, t skips.
func (m *mutation) wantNoticed(t *testing.T, program string) {
	t.Helper()
	cmd := exec.Command(program, "-test.v", "-test.failfast", "-test.count", "20", "-test.timeout", "60s", "-test.run", "^"+m.test+"$")
	cmd.Dir = m.pkg
	cmd.Env = append(os.Environ(), mutantEnv+"="+m.name, "RLGEN_TEST_REQUIRE=0")
	out, err := cmd.CombinedOutput()
	failed := bytes.Contains(out, []byte("--- FAIL: "+m.test)) || bytes.Contains(out, []byte("panic: "))
	switch {
	case err != nil && failed:
		t.Logf("%s notices", m.test)
	case err == nil && bytes.Contains(out, []byte("--- SKIP: "+m.test)) && !suite.Required():
		t.Skipf("%s skips:\n%s", m.test, out)
	case err == nil:
		t.Errorf("%s passes, want it to fail:\n%s", m.test, out)
	default:
		t.Errorf("%s does not run: %v\n%s", m.test, err, out)
	}
}

// mutant is a test program of one package with mutations, each of which is on if the environment names it.
type mutant struct {
	pkg       string
	mutations []*mutation
	texts     map[string]string // of the files that are mutated, by path
}

// mutants puts all mutations into few programs. Mutations of the same code are in different programs, and one that
// cannot be off has its own.
func mutants(t *testing.T) (all []*mutant) {
	t.Helper()
	for i := range mutations {
		m := &mutations[i]
		j := slices.IndexFunc(all, func(p *mutant) bool { return p.add(t, m) })
		if j < 0 {
			p := &mutant{pkg: m.pkg, texts: map[string]string{}}
			p.add(t, m)
			all = append(all, p)
		}
	}
	return all
}

// add adds a mutation, and reports whether it could.
func (p *mutant) add(t *testing.T, m *mutation) bool {
	t.Helper()
	isOnly := func(m *mutation) bool { return !strings.Contains(m.new, "MUTANT") }
	if p.pkg != m.pkg || len(p.mutations) > 0 && (isOnly(m) || isOnly(p.mutations[0])) {
		return false
	}
	path, text := m.find(t)
	if changed, ok := p.texts[path]; ok {
		text = changed
	}
	if strings.Count(text, m.old) != 1 {
		return false
	}
	on := fmt.Sprintf("(os.Getenv(%q) == %q)", mutantEnv, m.name)
	text = strings.Replace(text, m.old, strings.ReplaceAll(m.new, "MUTANT", on), 1)
	if strings.Contains(text, "os.Getenv") && !strings.Contains(text, `"os"`) {
		text = strings.Replace(text, "\nimport ", "\nimport \"os\"\n\nimport ", 1)
	}
	p.mutations, p.texts[path] = append(p.mutations, m), text
	return true
}

// build builds the program, in which the mutated files take the place of the originals, and returns its path.
func (p *mutant) build(t *testing.T) string {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for path, text := range p.texts {
		replace[path] = filepath.Join(dir, fmt.Sprint("mutant", len(replace), ".go"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "test", "-c", "-vet=off", "-o", program, "-overlay", overlay, p.pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
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
