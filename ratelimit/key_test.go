package ratelimit

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/rules"
)

var keyPolicy = &rules.Policy{
	Package: "example.com/shop", Type: "shop.Orders", Method: "Create",
	Limits: []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 1, Window: 1e9}}}},
}

// Different ids have different keys, and a key has its three parts whatever the id is.
func TestKeyIsInjective(t *testing.T) {
	clear := newKeyer(keyPolicy, 0, nil, DefaultIPv6Prefix)
	hashed := newKeyer(keyPolicy, 0, newHasher([]byte("0123456789abcdef")), DefaultIPv6Prefix)
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringN(60, 70, 100), rapid.StringMatching(`[~%:{}a-f0-9]{1,40}`))
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		for _, k := range []keyer{clear, hashed} {
			ka, kb := keyOf(&k, a), keyOf(&k, b)
			if (ka == kb) != (a == b) {
				t.Fatalf("keys of %q and %q are %q and %q", a, b, ka, kb)
			}
			if parts := strings.Split(ka, ":"); len(parts) != 3 || strings.ContainsAny(ka, "{}") {
				t.Fatalf("key of %q is %q, want three parts and no brace", a, ka)
			}
			if most := len(k.prefix) + maxID + len(k.suffix); len(ka) > most {
				t.Fatalf("key of %q has %d bytes, want %d at most", a, len(ka), most)
			}
		}
	})
}

func TestLongAndSecretIDsAreHashed(t *testing.T) {
	for _, test := range []struct {
		name   string
		id     string
		secret string
		want   string
	}{
		{"64 bytes stay", strings.Repeat("a", 64), "", "rl:user=" + strings.Repeat("a", 64) + ":shop.Orders-Create"},
		{"65 bytes do not", strings.Repeat("a", 65), "", "rl:user=~635361c48bb9eab14198e76ea8ab7f1a:shop.Orders-Create"},
		{"escaping counts", strings.Repeat(":", 22), "", "rl:user=~1ebabd36b947a7f530dfdfd50da1e00b:shop.Orders-Create"},
		{"secret", "alice", "0123456789abcdef", "rl:user=~fdbf8b1cacd3d578e062d0e41104357d:shop.Orders-Create"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var by *hasher
			if test.secret != "" {
				by = newHasher([]byte(test.secret))
			}
			k := newKeyer(keyPolicy, 0, by, DefaultIPv6Prefix)
			if got := keyOf(&k, test.id); got != test.want {
				t.Errorf("key = %q, want %q", got, test.want)
			}
		})
	}
}
