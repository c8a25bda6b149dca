package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestLostReceipt holds that a bucket, which cannot tell whose permits it gets, gets back once what is given back, where the answer to that is lost: it is not sent again, neither by
// the store nor for who calls again.
func TestLostReceipt(t *testing.T) {
	f := &faults{}
	client := redistest.Standalone(t).Client(t, func(o *redis.Options) { o.Dialer, o.DialerRetries = f.dial, 1 })
	s, req := newStore(t, client), bucketOf(redistest.Prefix(t), 100, 5)
	out := take(t, s, req)
	take(t, s, req)
	take(t, s, req)
	f.next.Store(int32(cutAfter))
	if err := s.GiveBack(context.Background(), out.Receipt); classOf(err) != store.Indeterminate {
		t.Errorf("GiveBack without an answer = %v, want an error of class %v", err, store.Indeterminate)
	}
	wantLeft(t, s, req, 90, 93)
	if err := s.GiveBack(context.Background(), out.Receipt); err != nil {
		t.Errorf("GiveBack of what may have been given back = %v, want nothing done", err)
	}
	wantLeft(t, s, req, 90, 93)
}

// wantLeft fails the test unless as many permits remain, or what a bucket has gained since, but fewer than once more, of which a bucket may have a part of a permit less.
func wantLeft(t *testing.T, s store.Store, req store.Request, least, more int64) {
	t.Helper()
	req.Cost = 0
	if left := take(t, s, req).Rules[0].Remaining; left < least || left >= more {
		t.Errorf("%d remain of %s, want %d", left, req.Key, least)
	}
}

// apart returns a request of a full limit and one of a bucket of another node of a Cluster's, whose name is returned.
func apart(t *testing.T, client *redis.ClusterClient, s store.Store) (full, bucket store.Request, node string) {
	t.Helper()
	p := redistest.Prefix(t)
	full, bucket = request(p+"full", 1, 1), bucketOf(p+"bucket", 100, 5)
	for masterOf(t, client, bucket.Key) == masterOf(t, client, full.Key) {
		bucket.Key += "x"
	}
	take(t, s, full)
	take(t, s, bucket)
	take(t, s, bucket)
	return full, bucket, masterOf(t, client, bucket.Key)
}

// TestLostReservationIsReturnedOnce holds the same of what a Cluster's node has reserved of a bucket that another denies.
func TestLostReservationIsReturnedOnce(t *testing.T) {
	cluster := redistest.NewCluster(t)
	plain := cluster.Client(t)
	f := &faults{}
	s := newStore(t, cluster.Client(t, func(o *redis.ClusterOptions) { o.Dialer, o.ReadTimeout = f.dial, patience }))
	full, bucket, node := apart(t, plain, newStore(t, plain))
	take(t, s, store.Request{Key: full.Key, Rules: full.Rules}, store.Request{Key: bucket.Key, Rules: bucket.Rules, Algorithm: bucket.Algorithm}) // loads the script
	var scripts atomic.Int32
	f.only = func(addr string) bool {
		if addr == node && scripts.Add(1) == 2 { // the give-back
			f.next.Store(int32(cutAfter))
		}
		return addr == node
	}
	out, err := store.Take(context.Background(), s, []store.Request{full, bucket}, true)
	if err != nil || out.Allowed {
		t.Errorf("Take = %v, %v, want it denied", out.Allowed, err)
	}
	wantLeft(t, newStore(t, plain), bucket, 90, 93)
}

// TestDeniedWhereAnotherCannotDecide holds that a denial by one node of a Cluster is one, though another's answer is lost.
func TestDeniedWhereAnotherCannotDecide(t *testing.T) {
	cluster := redistest.NewCluster(t)
	plain := cluster.Client(t)
	f := &faults{}
	s := newStore(t, cluster.Client(t, func(o *redis.ClusterOptions) { o.Dialer, o.ReadTimeout = f.dial, patience }))
	full, bucket, node := apart(t, plain, newStore(t, plain))
	f.only = func(addr string) bool { return addr == node }
	for range 3 {
		f.next.Store(int32(cutAfter))
		if out, err := store.Take(context.Background(), s, []store.Request{full, bucket}, true); err != nil || out.Allowed {
			t.Errorf("Take = %v, %v, want it denied by the limit that is full", out.Allowed, err)
		}
	}
}
