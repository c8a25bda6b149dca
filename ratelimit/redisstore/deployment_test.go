package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// deployed are limits of one method in versions of a service that follow one another: of every algorithm, in all of its forms, and with
// other numbers. Nothing comes back while the test lasts.
var deployed = []string{
	"3,366d", "5,366d", "3,365d", "2,1d 4,366d", "3,366d algo=compact-log", "40,366d algo=compact-log", "3,366d algo=sliding-window", "5,366d algo=sliding-window segments=3",
	"3,366d algo=fixed-window", "4,366d algo=fixed-window start=first", "3,366d algo=token-bucket", "3,366d algo=token-bucket burst=2", "4,365d algo=token-bucket",
	"3,366d algo=token-bucket refill=interval", "3,366d algo=leaky-bucket", "3,366d algo=leaky-bucket wait=1h", "3,366d algo=gcra", "5,366d algo=gcra",
}

// TestDeployments has every version of a limit follow every other one, and then run beside it as long as a deployment takes: whatever algorithm or numbers
// change, no call fails, each version lets through what it may and no more, the one before denies as it did, and nothing stays behind
// that does not expire.
func TestDeployments(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	prefix := fmt.Sprintf("deployed-%08x-", rand.Uint32())
	versions := make([]*ratelimit.Guard, len(deployed))
	most := make([]int64, len(deployed))
	for i, text := range deployed {
		versions[i], most[i] = deploy(t, client, text)
	}
	for i := range versions {
		for j := range versions {
			ctx := ratelimit.WithUser(context.Background(), fmt.Sprintf("%s%d-%d", prefix, i, j))
			if n := passing(t, versions[i], ctx, most[i]); n != most[i] {
				t.Fatalf("%s lets %d calls pass, want %d", deployed[i], n, most[i])
			}
			if n := passing(t, versions[j], ctx, most[j]); i == j && n != 0 {
				t.Errorf("%s lets %d calls pass after all that it may, want none", deployed[i], n)
			}
			if n := passing(t, versions[i], ctx, 0); n != 0 {
				t.Errorf("%s lets a call pass after %s was deployed and withdrawn, want it denied", deployed[i], deployed[j])
			}
		}
	}
	checkLeft(t, client, prefix, len(deployed)*len(deployed))
}

// deploy returns a version of a service, and what it lets through at once.
func deploy(t *testing.T, client *redis.Client, text string) (*ratelimit.Guard, int64) {
	t.Helper()
	d, err := rules.Parse("//ratelimit:user " + text + " onfail=closed")
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := ratelimit.New(newStore(t, client), ratelimit.WithoutDenyCache())
	if err != nil {
		t.Fatal(err)
	}
	guard, err := limiter.Prepare(&rules.Policy{Package: "example.com/deployed", Type: "deployed.Service", Method: "Call", Limits: []rules.Limit{d.Limit}})
	if err != nil {
		t.Fatal(err)
	}
	if d.Limit.Queues() {
		return guard, 1
	}
	return guard, d.Limit.Capacity(d.Limit.Rules[0])
}

// passing returns how many calls pass before one is denied, which is to be no later than after most.
func passing(t *testing.T, guard *ratelimit.Guard, ctx context.Context, most int64) int64 {
	t.Helper()
	for n := int64(0); ; n++ {
		d, _, err := guard.Decide(ctx)
		switch {
		case err != nil || d.Degraded != nil:
			t.Fatalf("Decide = %+v, %v, want the store to decide", d, err)
		case !d.Allowed:
			return n
		case n >= most:
			return n + 1
		}
	}
}

// checkLeft holds of all keys of ids with a prefix what they may be, and that they expire: no later than what counts in them
// leaves the longest window, and the sub-window in which that ends.
func checkLeft(t *testing.T, client *redis.Client, prefix string, ids int) {
	t.Helper()
	ctx, n := context.Background(), 0
	keys := client.Scan(ctx, 0, "rl:user="+prefix+"*", 1000).Iterator()
	for ; keys.Next(ctx); n++ {
		kind, ttl := client.Type(ctx, keys.Val()).Val(), client.PTTL(ctx, keys.Val()).Val()
		if kind != "string" && kind != "zset" || ttl <= 0 || ttl > 366*24*time.Hour*4/3+2*time.Second {
			t.Errorf("%s is a %s and expires in %v, want a set or a string that expires", keys.Val(), kind, ttl)
		}
	}
	if err := keys.Err(); err != nil || n < ids || n > 2*ids {
		t.Errorf("%d keys of %d ids, error %v, want one of each algorithm that an id has met", n, ids, err)
	}
}
