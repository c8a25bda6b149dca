package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// hasDoor reports whether the script needs the ban of request i. Returned permits do not change bans.
func (d *decision) hasDoor(i int) bool {
	return d.requests[i].Ban > 0 && d.op != grant && d.op != giveBack
}

// door is the limit that bans request i.
func (d *decision) door(i int) limit {
	req := &d.requests[i]
	return limit{
		place: atDoor, option: req.Ban.Microseconds(),
		rules: []rules.Rule{{Count: req.After, Window: req.Longest()}},
	}
}

// shutAll makes what the rules of request i have said those of a closed door, if its door is closed.
func (d *decision) shutAll(i int, answers []store.RuleOutcome, door store.RuleOutcome) {
	left := door.RetryAfter
	if d.detail {
		left = door.ResetAfter
	}
	if left == 0 {
		return
	}
	for j := range answers {
		answers[j].Close(left)
	}
}

// doorKey is where the denials and the ban of a key are: in its slot, under the same prefix, and under no limit's own key:
// "rl:ban:{rl:user=42:orders.Orders-Create}".
func doorKey(key string) string {
	prefix, _, _ := strings.Cut(key, ":")
	if tag := hashTag(key); tag != key {
		return prefix + ":ban:" + key
	}
	return prefix + ":ban:{" + key + "}"
}

// Ban closes the keys of requests for d, or lifts their bans. It is sent and repeated as [Store.Reset] is.
func (s *Store) Ban(ctx context.Context, requests []store.Request, d time.Duration) error {
	if err := store.ValidateBan(requests, d); err != nil {
		return misconfigured(err)
	}
	if err := validate(requests); err != nil {
		return misconfigured(err)
	}
	return s.all(ctx, decision{op: shut, at: d.Microseconds(), requests: requests})
}
