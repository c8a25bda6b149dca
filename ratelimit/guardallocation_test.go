package ratelimit_test

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// still is a store that answers the same to every call, and does nothing else.
type still struct {
	store.Store
	out store.Outcome
}

func (s *still) Take(_ context.Context, requests []store.Request, _ bool, out *store.Outcome) error {
	*out = s.out
	out.Receipt.Requests = requests
	return nil
}

// A guard allocates the keys of a call, nothing for one that no limit applies to; of a denied call, the error, too, and where somebody listens, the decision and what its limits and their rules have said. For more limits than a
// permit has room for, it allocates the requests.
func TestGuardAllocates(t *testing.T) {
	hour := []rules.Rule{{Count: 10, Window: time.Hour}}
	global, user := rules.Limit{Kind: rules.Global, Rules: hour}, rules.Limit{Kind: rules.User, Rules: hour}
	key, ip := rules.Limit{Kind: rules.Key, By: "id", Rules: hour}, rules.Limit{Kind: rules.IP, Rules: hour}
	number, address, long := key, key, key
	number.By, address.By, long.By = "number", "address", "long"
	address.Kind = rules.IP
	ids := map[string]func(in *ratelimit.Input){
		"nobody":  func(in *ratelimit.Input) { in.By("") },
		"id":      func(in *ratelimit.Input) { in.By("4242") },
		"number":  func(in *ratelimit.Input) { in.ByInt(ratelimit.Int(4242)) },
		"address": func(in *ratelimit.Input) { in.By("[2001:db8:aaaa:bbbb::7]:443") },
		"long":    func(in *ratelimit.Input) { in.By(strings.Repeat("x", 1000)) },
	}
	hashed := ratelimit.WithHashIDs([]byte("0123456789abcdef"))
	five := make([]rules.Limit, 5)
	for i := range five {
		five[i] = user
		five[i].Name = strconv.Itoa(i)
	}
	nobody := key
	nobody.By, nobody.Missing = "nobody", rules.MissingAllow
	free, pro := user, user
	free.Plan, pro.Plan = "free", "pro"
	contract := ratelimit.WithRules(func(context.Context, *rules.Policy, int) ([]rules.Rule, error) { return hour, nil })
	for _, test := range []struct {
		name   string
		limits []rules.Limit
		denied bool
		want   float64
		opts   []ratelimit.Option
	}{
		{"global", []rules.Limit{global}, false, 0, nil},
		{"user", []rules.Limit{user}, false, 1, nil},
		{"key", []rules.Limit{key}, false, 1, nil},
		{"ip", []rules.Limit{ip}, false, 1, nil},
		{"key of a number", []rules.Limit{number}, false, 1, nil},
		{"key that is long", []rules.Limit{long}, false, 1, nil},
		{"ip in text", []rules.Limit{address}, false, 1, nil},
		{"user hashed", []rules.Limit{user}, false, 1, []ratelimit.Option{hashed}},
		{"ip hashed", []rules.Limit{ip}, false, 1, []ratelimit.Option{hashed}},
		{"user, ip and global", []rules.Limit{user, ip, global}, false, 2, nil},
		{"four", five[:4], false, 4, nil},
		{"five", five, false, 6, nil},
		{"five denied", five, true, 6, nil},
		{"user of a plan", []rules.Limit{free, pro}, false, 1, nil},
		{"nobody", []rules.Limit{nobody}, false, 0, nil},
		{"user and ip by contracts", []rules.Limit{user, ip}, false, 2, []ratelimit.Option{contract}},
		{"global denied", []rules.Limit{global}, true, 1, nil},
		{"user denied", []rules.Limit{user}, true, 2, nil},
		{"user, ip and global denied", []rules.Limit{user, ip, global}, true, 3, nil},
		{"user denied, observed", []rules.Limit{user}, true, 5, []ratelimit.Option{ratelimit.WithObserver(&listener{})}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &still{out: store.Outcome{Allowed: !test.denied, Rules: make([]store.RuleOutcome, len(test.limits))}}
			if test.limits[0].Plan != "" {
				s.out.Rules = s.out.Rules[:1] // that of the caller's plan
			}
			if test.denied {
				s.out.Rules[0].RetryAfter = time.Second
			}
			l, err := ratelimit.New(s, append(test.opts, ratelimit.WithInstances(1))...)
			if err != nil {
				t.Fatal(err)
			}
			g := l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: test.limits})
			ctx := ratelimit.WithIP(ratelimit.WithUser(context.Background(), "4242"), netip.MustParseAddr("2001:db8:aaaa:bbbb::7"))
			ctx = ratelimit.WithPlan(ctx, "pro")
			var in []ratelimit.Input
			if give := ids[test.limits[0].By]; give != nil {
				in = make([]ratelimit.Input, 1)
				give(&in[0])
			}
			take := func() {
				if _, err := g.Take(ctx, in...); errors.Is(err, ratelimit.ErrExceeded) != test.denied || !test.denied && err != nil {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(1000, take); n != test.want && !raced {
				t.Errorf("a call allocates %v times, want %v", n, test.want)
			}
		})
	}
}
