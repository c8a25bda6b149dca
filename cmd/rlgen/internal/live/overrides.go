package live

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/rules"
)

// Overrides returns what the hash in Redis has, by name, and what is wrong with it for the program's limits; nil if nothing.
func (s *Session) Overrides(ctx context.Context) (list []rules.Override, fault error, err error) {
	list, err = s.layer(ctx, HashOfOverrides)
	if err == nil {
		_, fault = rules.Resolve(s.policies, list)
	}
	return list, fault, err
}

// Resolve says what overrides make of the limits.
func (s *Session) Resolve(list []rules.Override) (map[*rules.Policy]*rules.Overridden, error) {
	return rules.Resolve(s.policies, list)
}

// Set makes text hold in place of the directive of a limit, unless the hash, which programs heed as a whole or not at all, were wrong then. It returns the text that was there before. With dry, it
// changes nothing.
func (s *Session) Set(ctx context.Context, name, text string, dry bool) (before string, err error) {
	list, _, err := s.Overrides(ctx)
	if err != nil {
		return "", err
	}
	if i := named(list, name); i >= 0 {
		before = list[i].Text
		list[i].Text = text
	} else {
		list = append(list, rules.Override{Name: name, Text: text, At: rules.Place{Source: redisoverride.Key}})
	}
	if _, err := s.Resolve(list); err != nil {
		return before, fmt.Errorf("nothing is set, since programs would refuse all of the hash: %w", err)
	}
	if dry {
		return before, nil
	}
	return before, redisoverride.Set(ctx, s.client, name, text)
}

// Remove takes the override of a limit away, and returns what it was; empty if there was none. With dry, it changes nothing.
func (s *Session) Remove(ctx context.Context, name string, dry bool) (before string, err error) {
	list, _, err := s.Overrides(ctx)
	if err != nil {
		return "", err
	}
	i := named(list, name)
	if i < 0 {
		return "", nil
	}
	if !dry {
		err = redisoverride.Delete(ctx, s.client, name)
	}
	return list[i].Text, err
}

func named(list []rules.Override, name string) int {
	return slices.IndexFunc(list, func(o rules.Override) bool { return o.Name == name })
}
