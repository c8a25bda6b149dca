package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// master is the Redis of the shops, which is killed and comes back.
type master struct {
	url    string
	client func() *redis.Client // of the one that decides now
	kill   func()
	back   func()
	keeps  bool // all that it has answered
}

// restarted is a server alone, which comes back with all that it has answered.
func restarted(t *testing.T) master {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	return master{
		url:    "redis://" + server.Addr() + "?read_timeout=5s", // on a busy machine, the check at the start takes its time
		client: func() *redis.Client { return server.Client(t) },
		kill:   func() { server.Kill(t) },
		back:   func() { server.Restart(t) },
		keeps:  true,
	}
}

// promoted is a master whose replica comes in its place, by the sentinels' decision. It stays away.
func promoted(t *testing.T) master {
	s := redistest.StartSentinel(t)
	url, now := "redis+sentinel://", s.Master
	for i, n := range s.Sentinels {
		if i > 0 {
			url += ","
		}
		url += n.Addr()
	}
	return master{
		url:    url + "/" + redistest.MasterName + "?read_timeout=5s",
		client: func() *redis.Client { return now.Client(t) },
		kill:   func() { s.Master.Kill(t) },
		back: func() {
			now = s.Replica
			if err := redistest.Poll(func() error {
				if addr, err := s.MasterAddr(); err != nil || addr != now.Addr() {
					return fmt.Errorf("the sentinels' master is %s (%v), want %s", addr, err, now.Addr())
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// TestMasterKilled has two shops serve a load while the master of their Redis is killed and another comes, or the same. No call fails for
// it but those whose limit says onfail=closed, no more orders are placed than is documented, and afterwards the shops share their counts again, without a
// restart.
func TestMasterKilled(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) master{"and restarted": restarted, "and its replica promoted": promoted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := start(t)
			o := outage{t: t, master: m, shops: []*program{run(t, m.url), run(t, m.url)}, client: newClient(t)}
			o.know()
			o.happen()
			o.share()
		})
	}
}

// outage is two shops whose master goes.
type outage struct {
	t      *testing.T
	master master
	shops  []*program
	client *http.Client
	calls  int // by touch
}

// know waits until each shop knows of the other: until it has been counted since both were first seen.
func (o *outage) know() {
	o.t.Helper()
	redis, both := o.master.client(), 0.0
	err := redistest.Poll(func() error {
		members := redis.ZRangeWithScores(context.Background(), "rl:instances", 0, -1).Val()
		switch {
		case len(members) == len(o.shops) && both == 0:
			both = members[len(members)-1].Score
		case len(members) == len(o.shops) && members[0].Score > both:
			return nil
		}
		o.touch() // a shop is counted beside its calls
		return errors.New("not every shop was counted since both were seen")
	})
	if err != nil {
		o.t.Fatal(err)
	}
}

// touch makes a limited call at each shop, which nothing else is charged for.
func (o *outage) touch() {
	for _, shop := range o.shops {
		o.calls++
		shop.ask(o.client, fmt.Sprint("nobody", o.calls), "DELETE", fmt.Sprint("/orders/none-of-", o.calls))
	}
}

// happen has the master go and come back under a load.
func (o *outage) happen() {
	load := startLoad(o.t, o.shops...)
	load.await(o.t, "orders placed", 100, answer.admitted)
	o.master.kill()
	gone := time.Now()
	for i := range o.shops {
		load.await(o.t, "calls refused, as onfail=closed says", 1, func(a answer) bool { return a.shop == i && a.refused() })
	}
	load.await(o.t, "orders placed", 20, answer.admitted)
	o.master.back()
	if err := redistest.Poll(o.over); err != nil {
		o.t.Error(err)
	}
	load.await(o.t, "orders placed", 20, answer.admitted)
	answers := load.end()
	o.wantAnswered(answers)
	o.wantBounded(answers, gone)
}

// refused says whether a call whose limit says onfail=closed was not decided.
func (a answer) refused() bool {
	return a.method == "DELETE" && a.status == http.StatusServiceUnavailable
}

// over returns an error until every shop has said that its Redis is gone and is back.
func (o *outage) over() error {
	for _, shop := range o.shops {
		if began, over := shop.log.outages(); began == 0 || began != over {
			return fmt.Errorf("the log tells of %d outages, of which %d are over:\n%s", began, over, shop.log)
		}
	}
	return nil
}

// wantAnswered fails the test unless every call was answered by the shop's own logic, or a limit.
func (o *outage) wantAnswered(answers []answer) {
	o.t.Helper()
	statuses := map[string]int{}
	for _, a := range answers {
		statuses[a.method+" "+strconv.Itoa(a.status)]++
		if (a.status == 0 || a.status >= 500) && !a.refused() {
			o.t.Errorf("%s of %s at shop %d was answered with %d", a.method, a.user, a.shop, a.status)
		}
	}
	for i, shop := range o.shops {
		if n := shop.instances(); slices.ContainsFunc(n, func(s string) bool { return s != strconv.Itoa(len(o.shops)) }) {
			o.t.Errorf("shop %d divided limits by %v, want by %d each time:\n%s", i, n, len(o.shops), shop.log)
		}
	}
	o.t.Logf("%d calls: %v", len(answers), statuses)
}

// bounds are limits of Orders.Create, of a user and of the address that all come from.
var bounds = []struct {
	by     string
	count  int
	window time.Duration
}{
	{"user", 3, 10 * time.Second}, {"user", 100, time.Hour}, {"ip", 1000, time.Hour},
}

// wantBounded fails the test if in any window more orders were placed than the count, the share of each shop, and what the store has lost.
func (o *outage) wantBounded(answers []answer, gone time.Time) {
	o.t.Helper()
	shops, by := len(o.shops), map[string]map[string][]answer{"user": {}, "ip": {"127.0.0.1": answers}}
	for _, a := range answers {
		by["user"][a.user] = append(by["user"][a.user], a)
	}
	for _, b := range bounds {
		most, mostLost := 0, 0
		for id, own := range by[b.by] {
			n, lost := mostIn(b.window, own), o.lost(b.by+"="+id, own, gone)
			most, mostLost = max(most, n), max(mostLost, lost)
			if bound := b.count + shops*max(1, b.count/shops) + lost; n > bound {
				o.t.Errorf("%s %s placed %d orders within %v, want at most %d", b.by, id, n, b.window, bound)
			}
		}
		o.t.Logf("%s %d,%v: at most %d orders, of %d ids; of one the store lost %d", b.by, b.count, b.window, most, len(by[b.by]), mostLost)
	}
}

// lost is how many of an id's orders of the time before the master was gone the store does not know of any more.
func (o *outage) lost(id string, answers []answer, gone time.Time) int {
	if o.master.keeps {
		return 0
	}
	key, until := "rl:"+id+":orders.Orders-Create", strconv.FormatInt(gone.UnixMicro(), 10)
	kept, err := o.master.client().ZCount(context.Background(), key, "-inf", until).Result()
	if err != nil {
		o.t.Fatal(err)
	}
	before := count(answers, func(a answer) bool { return a.admitted() && a.from.Before(gone) })
	return max(0, before-int(kept))
}

// share holds that the shops share their counts to the call: of the searches that a user may make in a minute, as many pass at both together.
func (o *outage) share() {
	o.t.Helper()
	const allowed = 20
	redis, n := o.master.client(), 0
	if err := redistest.Poll(func() error {
		n++
		user := fmt.Sprint("after", n)
		o.touch() // a shop that has stumbled says so until its next call
		if err := o.over(); err != nil {
			return err
		}
		before := o.began()
		redis.Del(context.Background(), "rl:ip=127.0.0.1:orders.Orders-Search") // which 60 searches of all attempts would use up
		passed := 0
		for i := range 2 * allowed {
			if o.shops[i%len(o.shops)].ask(o.client, user, "GET", "/orders?item=tea") == http.StatusOK {
				passed++
			}
		}
		kept := redis.ZCard(context.Background(), "rl:user="+user+":orders.Orders-Search@plan=free").Val()
		if o.began() != before {
			return errors.New("the machine is too busy for the budget")
		}
		if passed != allowed || kept != allowed {
			o.t.Errorf("%d searches of %s passed and %d are counted, want %d", passed, user, kept, allowed)
		}
		return nil
	}); err != nil {
		o.t.Error(err)
	}
}

// began is how many outages the shops tell of.
func (o *outage) began() (n int) {
	for _, shop := range o.shops {
		began, _ := shop.log.outages()
		n += began
	}
	return n
}
