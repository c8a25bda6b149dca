package traffic_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
)

// Calls come by their times, those of one time as they stand in the log, however large the bound is and however far behind whole files are.
func TestOrderOfMany(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var texts []string
	var want []call
	for range 2 { // the logs of two servers of the same hour
		var text strings.Builder
		text.WriteString("time,user\n")
		for second := range 100_000 {
			at, user := max(0, second/30-random.IntN(20)), fmt.Sprint(random.IntN(1000))
			fmt.Fprintf(&text, "%d,%s\n", at, user)
			want = append(want, call{At: int64(at) * 1e6, User: user, Cost: 1})
		}
		texts = append(texts, text.String())
	}
	slices.SortStableFunc(want, func(a, b call) int { return int(a.At - b.At) })
	got, r, err := read(t, traffic.Log{Within: 2 * time.Hour}, texts...)
	if err != nil || r.Bad != 0 {
		t.Fatalf("error %v, %d bad lines, want none", err, r.Bad)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d calls are not the %d of both logs by their times", len(got), len(want))
	}
}
