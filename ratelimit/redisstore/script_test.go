package redisstore_test

import (
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
