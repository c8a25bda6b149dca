package redislock

import (
	"context"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// TestDeclaredKeys holds that no script touches a key that its call does not declare. Its scripts begin with #!lua, with which
// a cluster refuses them the keys of other slots, and with guard, which refuses the rest.
func TestDeclaredKeys(t *testing.T) {
	s, err := New(redistest.NewCluster(t).Client(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, scripts := range []*scripts{&s.locks, &s.semaphores} {
		for _, script := range []*rediscall.Script{&scripts.acquire, &scripts.renew, &scripts.release} {
			*script = rediscall.NewScript("#!lua\n" + guard + script.Eval[1].(string))
		}
	}
	for _, limit := range []int64{0, 2} {
		c := lock.Claim{Name: redistest.Prefix(t), ID: "a:0", Lease: lock.MaxLease, Limit: limit, Cost: limit}
		EachWay(t, s, c)
	}
	for _, script := range []string{s.locks.acquire.Eval[1].(string), s.semaphores.acquire.Eval[1].(string)} {
		if !strings.HasPrefix(script, "#!lua\n") {
			t.Error("the scripts are not those of the test")
		}
	}
}

// guard makes commands of keys that are not declared fail.
const guard = `
local declared = {}
for _, key in ipairs(KEYS) do declared[key] = true end
local function guarded(name, ...)
  local keys = name == 'EXISTS' and {...} or name ~= 'TIME' and name ~= 'PUBLISH' and {(...)} or {}
  for _, key in ipairs(keys) do
    assert(declared[key], name .. ' of ' .. key .. ', which is not declared')
  end
  return redis.call(name, ...)
end
local redis = {call = guarded}
`

// EachWay takes each way through the scripts of c's kind.
func EachWay(t *testing.T, s *Store, c lock.Claim) {
	t.Helper()
	ctx := context.Background()
	w, err := s.Join(ctx)
	if err != nil {
		t.Fatal(err)
	}
	must := func(c lock.Claim, want bool) {
		t.Helper()
		if a, err := s.Acquire(ctx, c); err != nil || a.Held != want {
			t.Fatalf("Acquire(%+v) = %+v, %v, want held %v", c, a, err, want)
		}
	}
	other := c
	other.ID, other.Waiter = "b:0", w.ID
	must(c, true)
	must(c, true)
	must(other, false)
	must(other, false)
	if c.Limit == 0 {
		nested := c
		nested.ID, nested.Outer = "a:1", c.ID
		must(nested, true)
		if held, err := s.Release(ctx, nested); err != nil || !held {
			t.Fatalf("Release(%+v) = %v, %v, want true", nested, held, err)
		}
	}
	if a, err := s.Renew(ctx, c); err != nil || !a.Held {
		t.Fatalf("Renew = %+v, %v, want it held", a, err)
	}
	if held, err := s.Release(ctx, c); err != nil || !held {
		t.Fatalf("Release = %v, %v, want true", held, err)
	}
	<-w.Woken
	stranger := c
	stranger.ID = "c:0"
	must(stranger, false)
	must(other, true)
	if held, err := s.Release(ctx, other); err != nil || !held {
		t.Fatalf("Release of the waiter's = %v, %v, want true", held, err)
	}
	w.Close(other, true)
}
