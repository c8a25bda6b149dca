package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

const (
	redisstore = "ratelimit/redisstore"
	memstore   = "ratelimit/memstore"

	// scriptFile names the file whose text is the script of all stores that the Redis store's tests open.
	scriptFile = "RATELIMIT_TEST_SCRIPT"
)

// bench tries mutants, several at once.
type bench struct {
	dir     string
	script  []byte // as it is shipped
	results *results

	mu     sync.Mutex
	passed map[string]bool // which passes what is shipped has passed
}

// pass is a run of some tests.
type pass struct {
	tests, skip string // patterns
	quick       bool   // in the quick suite
	timeout     string
}

// luaPasses are those of a mutant of a Lua file, which it meets until one notices it: the laws that are most about its
// file, drawn a few times; tests of its own; all laws, on the variants that the file decides; and the package's other tests.
func luaPasses(file string) []pass {
	a := lawsOf[filepath.Base(file)]
	return []pass{
		{tests: "^TestMiniredis$/^(" + a.nearest + ")$", quick: true, timeout: "30s"},
		{tests: "^(" + a.own + ")$", quick: true, timeout: "60s"},
		{tests: "^TestMiniredis$/./" + a.variants, timeout: "180s"},
		{tests: ".", skip: skipped, quick: true, timeout: "180s"},
	}
}

// alonePasses are those of a mutant of a Lua file that is a script of its own.
var alonePasses = []pass{{tests: "Check|Fleet|Permissions", quick: true, timeout: "180s"}}

// goPasses are those of a mutant of a Go file.
var goPasses = []pass{{tests: ".", quick: true, timeout: "30s"}, {tests: ".", timeout: "60s"}}

// lawsOf are, of a Lua file, the laws that its mutants meet first, and the variants of algorithms that it has a part in, of which a
// file without any has a part in all; and the tests of its own, if there are.
var lawsOf = map[string]struct{ nearest, variants, own string }{
	"bucket.lua":          {"Traces|Bisimulation|Buckets", "token-bucket$|leaky-bucket|gcra", "TestBucket.*|TestNothingIsLeft"},
	"compact.lua":         {"CompactTraces|CompactLog", "compact-log", "TestCompact.*|TestManyDecisions|TestKeysOutlive.*"},
	"compact_log.lua":     {"CompactTraces|CompactLog", "compact-log", "TestCompactLog.*|TestKeysOutlive.*"},
	"compact_run.lua":     {"CompactTraces|CompactLog", "compact-log", "TestCompact.*|TestManyDecisions|TestMany.*|TestKeysOutlive.*|TestCrowdOfARefusingServer"},
	"decision.lua":        {"Traces|Model", "", "TestTakenBase|TestReset|TestQueueLook|TestManyDecisions|TestCrowdOfARefusingServer"},
	"door.lua":            {"Ban.*", "", "TestDoor.*|TestBan.*|TestReset"},
	"entries.lua":         {"Traces|Buckets|Windows", "", "TestKeysOutlive.*|TestBucketsOf.*|TestWindowsOf.*|TestBucketKeys|TestForeign.*|TestNothingIsLeft|TestKeysOf.*"},
	"fixed_window.lua":    {"Traces|Windows", "fixed-window", "TestWindow.*"},
	"fraction.lua":        {"Bisimulation|Buckets|Intervals", "bucket|gcra", "TestBucket.*"},
	"frame.lua":           {"Traces|Model", "", "TestTakenBase|TestReset|TestQueueLook|TestManyDecisions|TestCrowdOfARefusingServer"},
	"interval_bucket.lua": {"Traces|Intervals", "interval", "TestNothingIsLeft"},
	"queue.lua":           {"Traces|Queue", "^none$", "TestNothingIsLeft"},
	"sliding_log.lua":     {"Traces|Model", "sliding-log", "TestKeysOutlive.*|TestSetStaysSmall|TestTakenBase|TestExpiry.*|TestGiveBackRestores.*"},
	"sliding_window.lua":  {"Traces|Windows", "sliding-window", "TestWindow.*|TestSlidingWindow.*"},
}

// skipped are tests that hold the laws of TestMiniredis in other places, and those of faults, which servers, clients and time
// decide and no inequality of a script.
const skipped = "^(TestMiniredis|TestMiniredisWithoutExpiry|TestStandalone|TestCluster|TestClusterDeclaredKeys|TestSentinel|TestRing|TestDenyCache|" +
	"TestFlaws.*|TestMutations.*|TestSoak.*|TestOperations.*|TestManyIDs|TestHostileOptions|TestOutage|TestCheckOf.*|TestSentinelFailover|TestClusterChanges|" +
	"TestBreaker.*|TestFrozenServer|TestExhaustedPool|TestLost.*|TestServerStates|TestFaults.*|TestOverdueRides|TestLateHook|TestDeniedAcrossSlots|TestWaiters.*|TestCrowd.*|" +
	"TestManyDeniedAcrossSlots|TestKilledConnections)$"

func newBench(results *results) (*bench, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, results: results, passed: map[string]bool{}}
	if err := b.build(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() { os.RemoveAll(b.dir) }

// build builds the tests of both stores once, and has those of the Redis store write down their script.
func (b *bench) build() error {
	for _, pkg := range []string{redisstore, memstore} {
		if err := compile(b.binary(pkg), pkg); err != nil {
			return err
		}
	}
	cmd := exec.Command(b.binary(redisstore), "-test.run", "^TestScriptText$")
	cmd.Dir, cmd.Env = redisstore, append(os.Environ(), "RATELIMIT_TEST_SCRIPT_OUT="+b.shipped())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("TestScriptText: %v\n%s", err, out)
	}
	var err error
	b.script, err = os.ReadFile(b.shipped())
	return err
}

func compile(binary, pkg string, flags ...string) error {
	args := append([]string{"test", "-c", "-vet=off", "-o", binary}, flags...)
	if out, err := exec.Command("go", append(args, "./"+pkg)...).CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c ./%s: %v\n%s", pkg, err, out)
	}
	return nil
}

func (b *bench) shipped() string { return filepath.Join(b.dir, "shipped.lua") }

func (b *bench) binary(pkg string) string {
	return filepath.Join(b.dir, filepath.Base(pkg)+".test")
}

// try returns the test that notices m, "" if none does, and remembers it.
func (b *bench) try(m mutant) (string, error) {
	if by, ok := b.results.of(m); ok {
		return by, nil
	}
	make, passes, err := b.make(m)
	if err != nil {
		return "", err
	}
	defer make.clean()
	if last := b.results.last(m); last != "" {
		passes = append([]pass{{tests: exactly(last), timeout: "60s"}}, passes...)
	}
	for _, p := range passes {
		if by := make.run(p); by != "" {
			if err := b.sound(make.pkg, p); err != nil {
				return "", err
			}
			return by, b.results.put(m, by)
		}
	}
	return "", b.results.put(m, "")
}

// exactly is the pattern of one test, or subtest.
func exactly(test string) string {
	parts := strings.Split(test, "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	return strings.Join(parts, "/")
}

// sound fails if a pass notices something in what is shipped, too. It looks once.
func (b *bench) sound(pkg string, p pass) error {
	key := fmt.Sprint(pkg, p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.passed[key] {
		return nil
	}
	shipped := made{pkg: pkg, binary: b.binary(pkg), script: b.shipped()}
	if by := shipped.run(p); by != "" {
		return fmt.Errorf("%s fails on what is shipped, want tests that pass", by)
	}
	b.passed[key] = true
	return nil
}

// made is a mutant made into something that runs.
type made struct {
	pkg    string
	binary string // the tests
	script string // the file of the script that they run on, of the Redis store
	dir    string // that goes with it
}

func (r made) clean() { os.RemoveAll(r.dir) }

// make makes m, and says which passes it meets.
func (b *bench) make(m mutant) (r made, passes []pass, err error) {
	if r.dir, err = os.MkdirTemp(b.dir, "mutant"); err != nil {
		return r, nil, err
	}
	original, err := os.ReadFile(m.file)
	switch inScript := bytes.Count(b.script, original) == 1; {
	case err != nil:
		return r, nil, err
	case m.lua() && inScript:
		r.pkg, r.binary, r.script = redisstore, b.binary(redisstore), filepath.Join(r.dir, "script.lua")
		return r, luaPasses(m.file), os.WriteFile(r.script, bytes.Replace(b.script, original, m.text, 1), 0o600)
	case m.lua():
		r.pkg, passes = redisstore, alonePasses
	default:
		r.pkg, passes = memstore, goPasses
	}
	r.binary = filepath.Join(r.dir, "mutant.test")
	return r, passes, r.overlay(m)
}

// overlay builds the tests with the mutated file in the place of the original.
func (r made) overlay(m mutant) error {
	source, err := filepath.Abs(m.file)
	if err != nil {
		return err
	}
	mutated, list := filepath.Join(r.dir, "mutant"+filepath.Ext(m.file)), filepath.Join(r.dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: mutated}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(mutated, m.text, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(list, replace, 0o600); err != nil {
		return err
	}
	return compile(r.binary, r.pkg, "-overlay", list)
}

var failure = regexp.MustCompile(`--- FAIL: (\S+)`)

// run runs a pass and returns the test that fails, "" if none does. A mutant that never ends fails too.
func (r made) run(p pass) string {
	args := []string{"-test.run", p.tests, "-test.skip", p.skip, "-test.failfast", "-test.timeout", p.timeout, "-rapid.nofailfile"}
	long := "1"
	if p.quick {
		args, long = append(args, "-rapid.checks", "20"), "0"
	}
	cmd := exec.Command(r.binary, args...)
	cmd.Dir, cmd.Env = r.pkg, append(os.Environ(), "RLGEN_TEST_LONG="+long)
	if r.script != "" {
		cmd.Env = append(cmd.Env, scriptFile+"="+r.script)
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	by := unending
	for _, found := range failure.FindAllSubmatch(out, -1) {
		by = string(found[1])
	}
	return by
}

// unending is what notices a mutant when no test says that it fails.
const unending = "the end of the run"

// testsSum is a sum of all tests that mutants meet, and of their traces.
func testsSum() (string, error) {
	sum := sha256.New()
	for _, pattern := range []string{
		redisstore + "/*_test.go", memstore + "/*_test.go", "ratelimit/storetest/*.go", "ratelimit/storetest/redistest/*.go", "testdata/traces/*",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
