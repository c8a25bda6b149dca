package ratelimit

import (
	"testing"
	"time"

	"github.com/rlgen/rlgen/rules"
)

// However many contracts callers have, few of them are remembered.
func TestContractsAreFew(t *testing.T) {
	var c contracts
	for n := range 10 * maxContracts {
		c.learn(contract{Limit: &rules.Limit{Rules: []rules.Rule{{Count: int64(n + 1), Window: time.Hour}}}})
		if got := len(*c.known.Load()); got > maxContracts {
			t.Fatalf("%d contracts are remembered, want at most %d", got, maxContracts)
		}
	}
}
