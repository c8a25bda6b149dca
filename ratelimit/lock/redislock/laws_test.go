package redislock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/lock/locktest"
	"github.com/rlgen/rlgen/ratelimit/lock/redislock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// pass makes all that ends on the server end sooner: keys and what ZSETs have by when it ends.
const pass = `
local ms = tonumber(ARGV[1])
for _, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  if left > ms then
    redis.call('PEXPIRE', key, left - ms)
  elseif left >= 0 then
    redis.call('DEL', key)
  end
end
for _, key in ipairs({KEYS[3], KEYS[4], KEYS[5]}) do
  local members = redis.call('ZRANGE', key, 0, -1)
  for _, member in ipairs(members) do
    redis.call('ZINCRBY', key, -1000 * ms, member)
  end
end`

func testLaws(t *testing.T, client redis.UniversalClient, waiters int64) {
	locktest.Run(t, func(t *testing.T) *locktest.Bench {
		return &locktest.Bench{
			Store:   newStore(t, client, redislock.WithBudget(30*time.Second)), // a thousand ask at once
			Prefix:  redistest.Prefix(t),
			Waiters: waiters,
			Pass: func(t testing.TB, name string, d time.Duration) {
				t.Helper()
				tag := "{" + strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D").Replace(name) + "}"
				keys := []string{"rl:lock:" + tag, "rl:lock:" + tag + ":token", "rl:lock:" + tag + ":queue", "rl:sem:" + tag, "rl:sem:" + tag + ":queue"}
				if err := client.Eval(context.Background(), pass, keys, d.Milliseconds()).Err(); err != nil && err != redis.Nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestStandalone(t *testing.T) { testLaws(t, redistest.Standalone(t).Client(t), 1000) }

func TestCluster(t *testing.T) { testLaws(t, redistest.NewCluster(t).Client(t), 200) }

func TestMiniredis(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	testLaws(t, client, 50) // a script takes it a hundred times as long
}
