// Package suite separates the quick test suite from the long one.
//
// By default go test runs the quick suite: every behaviour once, with few random cases.
// RLGEN_TEST_LONG=1 adds the long suite: more random cases, soak runs, the whole fault matrix,
// mutations and other platforms.
//
// A test that needs a program that is not installed skips. RLGEN_TEST_REQUIRE=1 makes it fail instead.
package suite

import (
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

const (
	longEnv    = "RLGEN_TEST_LONG"
	requireEnv = "RLGEN_TEST_REQUIRE"
)

// Long reports whether the long suite runs.
func Long() bool { return isSet(longEnv) }

// NeedLong skips t unless the long suite runs. The reason says what makes the test long.
func NeedLong(t testing.TB, reason string) {
	t.Helper()
	if !Long() {
		t.Skipf("%s: set %s=1 to run this test", reason, longEnv)
	}
}

// Program returns the path of the first of names that is in PATH. If none is, it skips t, or fails
// it where programs are required.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if isSet(requireEnv) {
		t.Fatalf("%s=1, and none of %q is in PATH", requireEnv, names)
	}
	t.Skipf("none of %q is in PATH: install it to run this test", names)
	return ""
}

// Required reports whether a missing program fails a test.
func Required() bool { return isSet(requireEnv) }

// Draw sets how many random cases rapid draws for a property in the quick suite, always from the same
// seed. The long suite draws rapid's own number of cases, from a new seed each time. Call Draw from
// TestMain, before the flags are parsed: -rapid.checks and -rapid.seed still win.
func Draw(cases int) {
	if Long() {
		return
	}
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(cases), "rapid.seed": "1"} {
		if err := flag.Set(name, value); err != nil {
			panic(err) // the package does not import rapid
		}
	}
}

// isSet reports whether an environment variable is set to anything but 0.
func isSet(name string) bool {
	value := os.Getenv(name)
	return value != "" && value != "0"
}
