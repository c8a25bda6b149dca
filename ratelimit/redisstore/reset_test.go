package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// Of every algorithm, a key that is reset is absent. One that holds something of another program is left alone, and so is every other key of
// the call, where one script resets them.
func TestReset(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	s, ctx := newStore(t, client), context.Background()
	prefix := redistest.Prefix(t)
	var requests []store.Request
	for _, req := range storetest.Requests(t, prefix, 10, time.Hour) {
		requests = append(requests, req)
	}
	keys := func() (keys []string) {
		for _, req := range requests {
			if client.Exists(ctx, req.Key).Val() == 1 {
				keys = append(keys, req.Key)
			}
		}
		return keys
	}
	if _, err := store.Take(ctx, s, requests, false); err != nil {
		t.Fatal(err)
	}
	if got := len(keys()); got != len(requests) {
		t.Fatalf("%d keys after a call of %d limits", got, len(requests))
	}
	if err := s.Reset(ctx, requests); err != nil {
		t.Fatal(err)
	}
	if got := keys(); got != nil {
		t.Errorf("keys after a reset: %q, want none", got)
	}

	if _, err := store.Take(ctx, s, requests[1:], false); err != nil {
		t.Fatal(err)
	}
	before := keys()
	foreign := requests[0].Key
	if err := client.HSet(ctx, foreign, "some", "thing").Err(); err != nil {
		t.Fatal(err)
	}
	err := s.Reset(ctx, requests)
	var failed *store.Error
	if !errors.As(err, &failed) || failed.Class != store.Misconfigured {
		t.Errorf("Reset of a hash = %v, want an error of class %v", err, store.Misconfigured)
	}
	if got := client.HGet(ctx, foreign, "some").Val(); got != "thing" {
		t.Errorf("the hash of another program has %q after a reset, want what it had", got)
	}
	client.Del(ctx, foreign)
	if got := keys(); !slices.Equal(got, before) {
		t.Errorf("keys after a reset that is refused: %q, want %q", got, before)
	}
}
