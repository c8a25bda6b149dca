package memstore

import (
	"strconv"
	"testing"
)

// The doors of those who are denied once and never come again go when they say nothing any more.
func TestExpiredDoorsAreDropped(t *testing.T) {
	var sh shard
	for i := range looksNew {
		sh.open(0, strconv.Itoa(i), 100).expires = 10
	}
	sh.open(10, "new", 100).expires = 20
	if n := len(sh.doors); n != 1 {
		t.Errorf("%d doors when all but one have expired, want 1", n)
	}
}

// An attack by ever new ids that are denied makes a shard forget doors, not grow.
func TestMaxDoors(t *testing.T) {
	const most = 7
	var sh shard
	for i := range 10 * most {
		sh.open(0, strconv.Itoa(i), most).expires = 10
		if n := len(sh.doors); n != min(i+1, most) {
			t.Fatalf("%d doors after %d ids were denied, want %d", n, i+1, min(i+1, most))
		}
	}
}
