package store

import (
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/testdata/suite"
)

func TestMain(m *testing.M) {
	suite.Draw(100)
	os.Exit(m.Run())
}

// What is plain at a glance is so when looked at closely.
func TestPlainIsValid(t *testing.T) {
	if req := (Request{Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 100, Window: time.Minute}}, Cost: 1}); !req.plain() {
		t.Errorf("plain() of %+v = false, want true", req)
	}
	little := rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 0, -1, 1})
	rapid.Check(t, func(t *rapid.T) {
		req := Request{
			Algorithm: rapid.SampledFrom([]rules.Algorithm{
				rules.SlidingLog, rules.CompactLog, rules.SlidingWindow, rules.FixedWindow, rules.TokenBucket, rules.LeakyBucket, rules.GCRA, 200,
			}).Draw(t, "algorithm"),
			Rules: []rules.Rule{{
				Count:  rapid.Int64().Draw(t, "count") >> rapid.IntRange(0, 63).Draw(t, "smaller"),
				Window: time.Duration(rapid.Int64Range(-1, int64(MaxWindow)+2000).Draw(t, "window") >> rapid.IntRange(0, 63).Draw(t, "shorter") / 1000 * 1000),
			}},
			Cost: little.Draw(t, "cost"), Burst: little.Draw(t, "burst"), Segments: little.Draw(t, "segments"), After: little.Draw(t, "after"),
			Ahead: time.Duration(little.Draw(t, "ahead")), Ban: time.Duration(little.Draw(t, "ban")), Queue: little.Draw(t, "queue") == 1,
			Start: rules.Start(little.Draw(t, "start") & 3), Refill: rules.Refill(little.Draw(t, "refill") & 3),
		}
		if err := req.validate(0); req.plain() && err != nil {
			t.Fatalf("plain() of %+v = true, want false: %v", req, err)
		}
	})
}
