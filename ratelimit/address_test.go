package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/rules"
)

func TestIPv6Prefix(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []ratelimit.Option
		a, b string
		same bool // whether the two count together
	}{
		{"one /64 by default", nil, "2001:db8:1:200::1", "2001:db8:1:200:ffff::1", true},
		{"two /64 by default", nil, "2001:db8:1:200::1", "2001:db8:1:201::1", false},
		{"one /56", []ratelimit.Option{ratelimit.WithIPv6Prefix(56)}, "2001:db8:1:200::1", "2001:db8:1:2ff:ffff::1", true},
		{"two /56", []ratelimit.Option{ratelimit.WithIPv6Prefix(56)}, "2001:db8:1:2ff::1", "2001:db8:1:300::1", false},
		{"one /48", []ratelimit.Option{ratelimit.WithIPv6Prefix(48)}, "2001:db8:1::1", "2001:db8:1:ffff::1", true},
		{"hosts of one /64", []ratelimit.Option{ratelimit.WithIPv6Prefix(128)}, "2001:db8::1", "2001:db8::2", false},
		{"one host, with zones", []ratelimit.Option{ratelimit.WithIPv6Prefix(128)}, "fe80::1%eth0", "fe80::1%eth1", true},
		{"IPv4 in IPv6", []ratelimit.Option{ratelimit.WithIPv6Prefix(56)}, "::ffff:203.0.113.7", "203.0.113.7", true},
		{"IPv4 neighbours", []ratelimit.Option{ratelimit.WithIPv6Prefix(1)}, "203.0.113.7", "203.0.113.8", false},
		{"IPv4 neighbours in IPv6", []ratelimit.Option{ratelimit.WithIPv6Prefix(1)}, "::ffff:203.0.113.7", "::ffff:203.0.113.8", false},
	} {
		for _, by := range []string{"", "addr"} {
			t.Run(test.name+" "+by, func(t *testing.T) {
				guard := limiter(t, memstore.New(), test.opts...).Guard(create(rules.Limit{Kind: rules.IP, By: by, Rules: per(1, time.Hour)}))
				take := func(addr string) error {
					if by != "" {
						var in ratelimit.Input
						in.By(addr)
						_, err := guard.Take(context.Background(), in)
						return err
					}
					_, err := guard.Take(ratelimit.WithIP(context.Background(), netip.MustParseAddr(addr)))
					return err
				}
				if err := take(test.a); err != nil {
					t.Fatal(err)
				}
				if err := take(test.b); errors.Is(err, ratelimit.ErrExceeded) != test.same {
					t.Errorf("%s after %s: %v, want them to count together: %t", test.b, test.a, err, test.same)
				}
			})
		}
	}
}

func TestIPv6PrefixIsRefused(t *testing.T) {
	for _, bits := range []int{-1, 0, 129} {
		_, err := ratelimit.New(memstore.New(), ratelimit.WithIPv6Prefix(bits))
		want := fmt.Sprintf("ratelimit: an IPv6 prefix of %d bits, want 1 to 128", bits)
		if err == nil || err.Error() != want {
			t.Errorf("New with %d bits: %v, want %s", bits, err, want)
		}
	}
}
