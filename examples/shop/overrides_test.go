package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// eager is a source that is also read every 100 ms.
type eager struct{ override.Source }

func (e eager) Watch(ctx context.Context, changed func()) {
	var own sync.WaitGroup
	defer own.Wait()
	own.Go(func() { e.Source.Watch(ctx, changed) })
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			changed()
		}
	}
}

// readOften has the program read its file of overrides more often than every five seconds.
func readOften(c config) fx.Option {
	if c.overrides == "" {
		return fx.Options()
	}
	return fx.Decorate(func(sources ratelimitfx.Overrides) (often ratelimitfx.Overrides) {
		for _, s := range sources {
			often = append(often, eager{s})
		}
		return often
	})
}

// limits is a file of overrides, one a line.
func limits(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.yaml")
	edit(t, path, lines...)
	return path
}

// edit writes a file of overrides as an editor does: another file, which takes its place.
func edit(t *testing.T, path string, lines ...string) {
	t.Helper()
	text := "limits:\n"
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	if err := os.WriteFile(path+"~", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}

// The RateLimit-Policy of Create with its directives, and as the test overrides two of its limits.
const (
	before = `"Create/user 10s";q=3;w=10, "Create/user 1h";q=100;w=3600, "Create/ip";q=1000;w=3600, "Create/global";q=500;w=1`
	after  = `"Create/user 20s";q=5;w=20, "Create/user 2h";q=200;w=7200, "Create/ip";q=9000;w=7200, "Create/global";q=500;w=1`
)

// version is an answer, and the limits that it says it was decided by.
type version struct {
	status   int
	policy   string
	from, to time.Time
}

// crowd is clients who order without end.
type crowd struct {
	shop *running
	over chan struct{}
	work sync.WaitGroup

	mu   sync.Mutex
	seen []version
}

func newCrowd(shop *running, clients int) *crowd {
	c := &crowd{shop: shop, over: make(chan struct{})}
	for i := range clients {
		c.work.Go(func() { c.order(fmt.Sprint("client", i)) })
	}
	return c
}

func (c *crowd) order(user string) {
	for {
		select {
		case <-c.over:
			return
		case <-time.After(100 * time.Millisecond): // so that 64 of these do not race for the processor
		}
		from := time.Now()
		resp := c.shop.post(user)
		v := version{resp.StatusCode, resp.Header.Get("RateLimit-Policy"), from, time.Now()}
		c.mu.Lock()
		c.seen = append(c.seen, v)
		c.mu.Unlock()
	}
}

// await waits for n answers of a version, and reports whether they came.
func (c *crowd) await(n int, policy string) bool {
	c.shop.t.Helper()
	err := redistest.Poll(func() error {
		if seen := c.count(policy); seen < n {
			return fmt.Errorf("%d answers were decided by %s, want %d", seen, policy, n)
		}
		return nil
	})
	if err != nil {
		c.shop.t.Errorf("%v\n%s", err, c.shop.log)
	}
	return err == nil
}

func (c *crowd) count(policy string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range c.seen {
		if v.policy == policy {
			n++
		}
	}
	return n
}

func (c *crowd) end() []version {
	close(c.over)
	c.work.Wait()
	return c.seen
}

// Limits are changed while 64 clients order: no call fails, none is decided by some limits from before and some from after, and once one is decided
// by those from after, all are that begin then.
func TestEditLimits(t *testing.T) {
	t.Parallel()
	path := limits(t, "Create/candidate: off")
	shop := start(t, config{overrides: path}, counts(""))
	crowd := newCrowd(shop, 64)
	met := crowd.await(200, before)
	edit(t, path, "Create/user: 5,20s 200,2h", "Create/ip: 9000,2h", "Create/candidate: off")
	met = met && crowd.await(200, after)
	seen := crowd.end()
	if !met {
		return
	}
	changed := changedAt(seen)
	for _, v := range seen {
		switch {
		case v.status != http.StatusCreated && v.status != http.StatusTooManyRequests:
			t.Errorf("an order is answered %d, want 201 or 429", v.status)
		case v.policy != before && v.policy != after:
			t.Errorf("an order is decided by\n%s\nwant\n%s or\n%s", v.policy, before, after)
		case v.policy == before && v.from.After(changed):
			t.Errorf("an order is decided by the limits from before, %v after one by those from after", v.from.Sub(changed))
		}
	}
	if n := strings.Count(shop.log.String(), `overrides are in force" limits=3`); n != 1 {
		t.Errorf("the log says %d times that the file's three overrides are in force, want once:\n%s", n, shop.log)
	}
}

// changedAt is when the first answer was there that was decided by the limits from after.
func changedAt(seen []version) (at time.Time) {
	for _, v := range seen {
		if v.policy == after && (at.IsZero() || v.to.Before(at)) {
			at = v.to
		}
	}
	return at
}

// ordered returns an error unless a user may place as many orders, and no more.
func (r *running) ordered(user string, want int) error {
	for i := range want {
		if status, _ := r.order(user); status != http.StatusCreated {
			return fmt.Errorf("order %d of %s: status %d, want %d orders placed", i+1, user, status, want)
		}
	}
	if status, _ := r.order(user); status != http.StatusTooManyRequests {
		return fmt.Errorf("order %d of %s: status %d, want 429", want+1, user, status)
	}
	return nil
}

// A mistake in the file changes nothing, and the log says what to write; once it is mended, the limits hold, and what was counted before counts on.
func TestMistakeInLimits(t *testing.T) {
	t.Parallel()
	path := limits(t, "Create/user: 1,1h")
	_, counted := clocked()
	shop := start(t, config{overrides: path}, counted)
	if err := shop.ordered("one", 1); err != nil {
		t.Error(err)
	}
	edit(t, path, "Create/user: 2,1h", "Create/usr: 9,1h")
	if err := redistest.Poll(func() error {
		if !strings.Contains(shop.log.String(), "did you mean") {
			return errors.New("the log does not tell of the mistake")
		}
		return nil
	}); err != nil {
		t.Errorf("%v:\n%s", err, shop.log)
	}
	if err := shop.ordered("two", 1); err != nil {
		t.Errorf("with a mistake in the file: %v", err)
	}
	edit(t, path, "Create/user: 2,1h")
	if err := redistest.Poll(func() error {
		if strings.Count(shop.log.String(), "overrides are in force") != 2 {
			return errors.New("the log does not tell that the mended file is in force")
		}
		return nil
	}); err != nil {
		t.Errorf("%v:\n%s", err, shop.log)
	}
	if err := shop.ordered("three", 2); err != nil {
		t.Errorf("with the file mended: %v", err)
	}
	if err := shop.ordered("one", 1); err != nil {
		t.Errorf("one of the two orders was placed before: %v", err)
	}
}
