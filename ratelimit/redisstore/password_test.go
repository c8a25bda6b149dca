package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// lockouts are what is done to the Redis user of a program that runs, and what is said to it from then on.
var lockouts = []struct {
	name string
	does string // of an administrator, command by command
	user string // of the program, whose password is pw; the default one if empty, without a password
	says string
}{
	{"requirepass set, for who has no password", "config set requirepass new", "", "unauthenticated"},
	{"the default user gets a password", "acl setuser default resetpass >new", "", "unauthenticated"},
	{"the default user is disabled", "acl setuser default off", "", "unauthenticated"},
	{"the password changed", "acl setuser limiter resetpass >new", "limiter", "WRONGPASS"},
	{"the user is disabled", "acl setuser limiter off", "limiter", "WRONGPASS"},
	{"the user is deleted", "acl deluser limiter", "limiter", "WRONGPASS"},
	{"the user may nothing", "acl setuser limiter -@all", "limiter", "NOPERM"},
	{"the user may not run scripts", "acl setuser limiter -evalsha -eval", "limiter", "NOPERM"},
	{"the user may no key", "acl setuser limiter resetkeys ~elsewhere:*", "limiter", "NOPERM"},
}

// TestLockedOut holds that a program whose Redis user may no longer what it could is told so, and lets nothing through whatever the
// limits' onfail is, from the first refusal on: on connections that it had, where the server acts on them, and on new ones.
func TestLockedOut(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	do(t, server.Client(t), "acl", "setuser", "admin", "on", ">pw", "~*", "&*", "+@all")
	admin := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "admin", "pw" })
	for _, test := range lockouts {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, RESP%d", test.name, protocol), func(t *testing.T) {
				do(t, admin, "config", "set", "requirepass", "")
				do(t, admin, "acl", "setuser", "default", "on", "nopass")
				do(t, admin, append([]any{"acl", "setuser", "limiter", "reset"}, words(acl)...)...)
				client := server.Client(t, func(o *redis.Options) {
					o.Protocol = protocol
					if test.user != "" {
						o.Username, o.Password = test.user, "pw"
					}
				})
				lockedOut(t, client, test.says, func() {
					do(t, admin, words(test.does)...)
					do(t, admin, "client", "kill", "type", "normal", "skipme", "yes")
				})
			})
		}
	}
}

// lockedOut calls methods of every onfail before and after something happens that is to be refused from then on.
func lockedOut(t *testing.T, client *redis.Client, says string, happens func()) {
	t.Helper()
	var log bytes.Buffer
	limiter, err := ratelimit.New(newStore(t, client), ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	var guards []*ratelimit.Guard
	for _, onFail := range []string{"open", "closed", "local"} {
		d, err := rules.Parse("//ratelimit:global 1000,1h onfail=" + onFail)
		if err != nil {
			t.Fatal(err)
		}
		p := &rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: onFail, Limits: []rules.Limit{d.Limit}}
		g, err := limiter.Prepare(p)
		if err != nil {
			t.Fatal(err)
		}
		guards = append(guards, g)
	}
	call := func(g *ratelimit.Guard) error {
		d, _, err := g.Decide(context.Background(), ratelimit.Input{})
		if err == nil && (!d.Allowed || d.Degraded != nil) {
			err = fmt.Errorf("decided %+v", d)
		}
		return err
	}
	for _, g := range guards {
		if err := call(g); err != nil {
			t.Fatal(err)
		}
	}
	happens()
	if err := redistest.Poll(func() error { // until it has noticed that its connections are gone
		if err := call(guards[1]); !errors.Is(err, ratelimit.ErrMisconfigured) {
			return fmt.Errorf("Decide = %w, want %w", err, ratelimit.ErrMisconfigured)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 10 { // more than the breaker needs to take them for failures
		for i, g := range guards {
			if err := call(g); !errors.Is(err, ratelimit.ErrMisconfigured) || !strings.Contains(err.Error(), says) {
				t.Fatalf("Decide %d = %v, want %v with %s", i, err, ratelimit.ErrMisconfigured, says)
			}
		}
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), says) {
		t.Errorf("the log does not tell of %s at level ERROR:\n%s", says, &log)
	}
	if err := limiter.Check(context.Background()); !errors.Is(err, ratelimit.ErrMisconfigured) {
		t.Errorf("Check = %v, want %v", err, ratelimit.ErrMisconfigured)
	}
}
