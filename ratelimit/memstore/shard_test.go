package memstore

import "testing"

// Keys whose hashes are the same are not mistaken for each other, in whatever order they go.
func TestKeysOfOneHash(t *testing.T) {
	for first := range 3 {
		var sh shard
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			sh.fresh(0, 7, key, bucketSteps, 100).expires = 10
		}
		gone := sh.all[first].key
		sh.drop(first)
		for _, key := range keys {
			e := sh.get(7, key)
			if key == gone && e != nil || key != gone && (e == nil || e.key != key) {
				t.Errorf("after %s is dropped, get(%s) = %+v", gone, key, e)
			}
		}
		sh.sweep(10, 100)
		if sh.used != 0 || len(sh.all) != 0 {
			t.Errorf("%d slots are used, and %d entries are left of what has expired, want none", sh.used, len(sh.all))
		}
	}
}
