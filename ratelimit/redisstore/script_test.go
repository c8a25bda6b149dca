package redisstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
)

func TestScriptReadsTimeOnce(t *testing.T) {
	if n := strings.Count(redisstore.ScriptText(), "'TIME'"); n != 1 {
		t.Errorf("the script reads TIME %d times, want once", n)
	}
}

func TestScriptFormatsNumbers(t *testing.T) {
	if strings.Contains(redisstore.ScriptText(), "tostring") {
		t.Error("the script uses tostring, which loses microseconds: want integer")
	}
}

// TestScriptText writes the script to the file that RATELIMIT_TEST_SCRIPT_OUT names, if it does, for .ci/mutate to break.
func TestScriptText(t *testing.T) {
	path := os.Getenv("RATELIMIT_TEST_SCRIPT_OUT")
	if path == "" {
		t.Skip("nobody asks for the script")
	}
	if err := os.WriteFile(path, []byte(redisstore.ScriptText()), 0o600); err != nil {
		t.Fatal(err)
	}
}
