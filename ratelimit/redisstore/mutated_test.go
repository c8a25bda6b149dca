package redisstore

import (
	"os"
	"testing"
)

// Mutated makes a store's script the one in the file that RATELIMIT_TEST_SCRIPT names, if it does: .ci/mutate breaks it, and so
// do the flaws. It stands before the options that change the script.
func Mutated(t testing.TB) Option {
	t.Helper()
	text := ScriptText()
	if path := os.Getenv("RATELIMIT_TEST_SCRIPT"); path != "" {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = string(file)
	}
	return WithScript(text)
}
