package redisstore_test

import (
	"testing"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
)

// A ban lies in the slot of its limit, with a hash tag and without, under the same prefix, which is what a user of Redis may be confined to.
func TestDoorKey(t *testing.T) {
	for key, want := range map[string]string{
		"rl:user=42:orders.Orders-Create":   "rl:ban:{rl:user=42:orders.Orders-Create}",
		"rl:user=42:{orders.Orders-Create}": "rl:ban:rl:user=42:{orders.Orders-Create}",
		"api:global:search.Index-Find@gcra": "api:ban:{api:global:search.Index-Find@gcra}",
	} {
		got := redisstore.DoorKey(key)
		if got != want || redisstore.Slot(got) != redisstore.Slot(key) {
			t.Errorf("door of %q = %q in slot %d, want %q in slot %d", key, got, redisstore.Slot(got), want, redisstore.Slot(key))
		}
	}
}
