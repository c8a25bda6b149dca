package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// bench tries mutants.
type bench struct {
	dir    string
	tests  string          // the Redis store's, built once: it reads its script from a file
	script []byte          // as it is shipped
	passed map[string]bool // which tests pass on it
}

const (
	redisstore = "ratelimit/redisstore"
	memstore   = "ratelimit/memstore"

	// laws and others are the tests that mutants of a script meet, the second where they survive the first.
	laws, others = "^TestMiniredis$", "."

	// skipped are tests that hold the laws of TestMiniredis on other servers, and those of faults, which servers decide and no
	// inequality of a script.
	skipped = "^(TestMiniredisWithoutExpiry|TestStandalone|TestCluster|TestClusterDeclaredKeys|TestSentinel|TestRing|TestFlawsAreNoticed|" +
		"TestSentinelFailover|TestClusterChanges|TestBreaker.*|TestFrozenServer|TestExhaustedPool|TestLost.*|TestServerStates)$"

	// scriptFile names the file whose text is the script of all stores that the Redis store's tests open.
	scriptFile = "RATELIMIT_TEST_SCRIPT"
)

func newBench() (*bench, error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, tests: filepath.Join(dir, "redisstore.test"), passed: map[string]bool{}}
	if err := b.build(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() { os.RemoveAll(b.dir) }

func (b *bench) build() error {
	if out, err := exec.Command("go", "test", "-c", "-o", b.tests, "./"+redisstore).CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %v\n%s", err, out)
	}
	cmd := exec.Command(b.tests, "-test.run", "^TestScriptText$")
	cmd.Dir, cmd.Env = redisstore, append(os.Environ(), "RATELIMIT_TEST_SCRIPT_OUT="+b.shipped())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("TestScriptText: %v\n%s", err, out)
	}
	var err error
	b.script, err = os.ReadFile(b.shipped())
	return err
}

// try returns the test that notices m, "" if none does.
func (b *bench) try(m mutant) (string, error) {
	if strings.HasSuffix(m.file, ".lua") {
		return b.tryLua(m)
	}
	return b.tryGo(m)
}

func (b *bench) tryLua(m mutant) (string, error) {
	original, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if bytes.Count(b.script, original) != 1 {
		return "", fmt.Errorf("%s does not stand once in the script", m.file)
	}
	path := filepath.Join(b.dir, "mutant.lua")
	if err := os.WriteFile(path, bytes.Replace(b.script, original, m.text, 1), 0o600); err != nil {
		return "", err
	}
	for _, tests := range []string{laws, others} {
		if by := b.run(tests, path); by != "" {
			return by, b.sound(tests)
		}
	}
	return "", nil
}

// run runs tests of the Redis store on the script of a file, and returns the one that fails, "" if none does.
func (b *bench) run(tests, script string) string {
	cmd := exec.Command(b.tests, "-test.run", tests, "-test.skip", skipped, "-test.failfast", "-test.short", "-rapid.nofailfile", "-test.timeout", "120s")
	cmd.Dir, cmd.Env = redisstore, append(os.Environ(), scriptFile+"="+script)
	return noticed(cmd)
}

// sound fails if tests notice something in the script as it is shipped, too. It looks once.
func (b *bench) sound(tests string) error {
	if b.passed[tests] {
		return nil
	}
	if by := b.run(tests, b.shipped()); by != "" {
		return fmt.Errorf("%s fails on the script as it is shipped, want tests that pass", by)
	}
	b.passed[tests] = true
	return nil
}

func (b *bench) shipped() string { return filepath.Join(b.dir, "shipped.lua") }

func (b *bench) tryGo(m mutant) (string, error) {
	source, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(b.dir, "mutant.go"), filepath.Join(b.dir, "overlay.json")
	if err := os.WriteFile(mutated, m.text, 0o600); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {source: mutated}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	return noticed(exec.Command("go", "test", "-overlay", overlay, "-failfast", "-timeout", "60s", "./"+memstore, "-rapid.nofailfile")), nil
}

var failure = regexp.MustCompile(`--- FAIL: (\S+)`)

// noticed runs tests and returns the one that fails, "" if none does. A mutant that never ends fails too.
func noticed(cmd *exec.Cmd) string {
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	by := "the end of the run: " + err.Error()
	for _, found := range failure.FindAllSubmatch(out, -1) {
		by = string(found[1])
	}
	return by
}
