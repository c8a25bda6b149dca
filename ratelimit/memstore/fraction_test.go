package memstore

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A quotient is what the division of integers makes of it, where that of floats is exact and where it is not.
func TestQuotient(t *testing.T) {
	for _, test := range [][2]int64{
		{0, 1}, {7, 2}, {-7, 2},
		{mostUnits - 1, 1}, {mostUnits - 1, mostUnits - 1}, {mostUnits - 1, mostUnits - 2}, {-mostUnits, 3}, {mostUnits - 1, 1 << 26}, {mostUnits - 1, math.MaxInt64}, {1 - mostUnits, mostUnits + 1},
		{mostUnits + 1, 1}, {mostUnits + 3, 2}, {-mostUnits - 1, 1}, {-mostUnits, mostUnits + 1}, // no float tells these from their neighbours
		{math.MaxInt64, 1}, {math.MaxInt64, 3}, {math.MaxInt64, math.MaxInt64}, {math.MinInt64, 1}, {math.MinInt64, 7},
	} {
		if got, want := quotient(test[0], test[1]), test[0]/test[1]; got != want {
			t.Errorf("quotient(%d, %d) = %d, want %d", test[0], test[1], got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.Int64Range(1, mostUnits).Draw(t, "d")
		q := rapid.Int64Range(-mostUnits/d, mostUnits/d).Draw(t, "q")
		n := q*d + rapid.SampledFrom([]int64{-1, 0, 1}).Draw(t, "beside a multiple")
		if got, want := quotient(n, d), n/d; got != want {
			t.Fatalf("quotient(%d, %d) = %d, want %d", n, d, got, want)
		}
	})
}
