package redisoverride_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/rules"
)

// What takes wrong names away can be typed as it is told, whatever the names are.
func TestMend(t *testing.T) {
	policies := []*rules.Policy{{
		Package: "m", Type: "m.Orders", Method: "Find",
		Limits: []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 3, Window: time.Hour}}}},
	}}
	for want, names := range map[string][]string{
		"":                                {"Find"},
		`rlgen override remove ""`:        {"Find", ""},
		"rlgen override remove Gone":      {"Gone", "Find"},
		"rlgen override remove ' '":       {" "},
		"rlgen override remove '$(rm)'":   {"$(rm)"},
		`rlgen override remove 'it'\''s'`: {"it's"},
		"rlgen override remove a b c d e": {"a", "b", "c", "Find", "d", "e", "f"},
	} {
		var all []rules.Override
		for _, name := range names {
			all = append(all, rules.Override{Name: name, Text: "5,1h"})
		}
		if got := redisoverride.Mend(policies, all); got != want {
			t.Errorf("Mend(%q) = %q, want %q", names, got, want)
		}
	}
	for _, name := range []string{"a\nb", "\x1b[2J", "\xff", strings.Repeat("x", 201)} {
		if got := redisoverride.Mend(policies, []rules.Override{{Name: name, Text: "5,1h"}}); got != "" {
			t.Errorf("Mend(%.20q) = %q, want nothing", name, got)
		}
	}
	gone := []rules.Override{{Name: "Gone", Text: "5,1h"}}
	if got := redisoverride.Mend(policies, gone, redisoverride.WithKey("rl:overrides:shop")); got != "rlgen override -overrides-key rl:overrides:shop remove Gone" {
		t.Errorf("Mend of another hash = %q, want its key", got)
	}
	if got := redisoverride.Mend(policies, []rules.Override{{Name: "Find", Text: "nonsense"}}); got != "rlgen override remove Find" {
		t.Errorf("Mend of a text that does not fit = %q, want its name", got)
	}
}
