package live

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/rules/overridefile"
)

// ReadFile reads the overrides in a file.
func ReadFile(path string) ([]rules.Override, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("-overrides: %w", err)
	}
	return overridefile.Parse(filepath.ToSlash(path), text)
}

// ReadHash reads the overrides in the hash of a key, empty for the default, in the Redis of an address.
func ReadHash(ctx context.Context, at Address, key string) ([]rules.Override, error) {
	client, err := reach(ctx, at, DefaultTimeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return readHash(ctx, client, cmp.Or(key, redisoverride.Key))
}

func readHash(ctx context.Context, client redis.UniversalClient, key string) ([]rules.Override, error) {
	list, _, err := redisoverride.New(client, redisoverride.WithKey(key)).Read(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("redis hash %s: %w", key, err)
	}
	return list, nil
}

// hash is the key of the hash of overrides.
func (s *Session) hash() string { return cmp.Or(s.options.OverridesKey, redisoverride.Key) }

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
		list = append(list, rules.Override{Name: name, Text: text, At: rules.Place{Source: s.hash()}})
	}
	if _, err := s.Resolve(list); err != nil {
		return before, fmt.Errorf("nothing is set, since programs would refuse all of the hash: %w", err)
	}
	if dry {
		return before, nil
	}
	return before, redisoverride.Set(ctx, s.client, name, text, redisoverride.WithKey(s.hash()))
}

// Remove takes the override of a limit away, and returns what it was; empty if there was none, where a name that neither the hash nor a limit has is
// an [ErrArgument]. With dry, it changes nothing.
func (s *Session) Remove(ctx context.Context, name string, dry bool) (before string, err error) {
	list, _, err := s.Overrides(ctx)
	if err != nil {
		return "", err
	}
	i := named(list, name)
	if i < 0 {
		return "", s.known(name, list)
	}
	if !dry {
		err = redisoverride.Delete(ctx, s.client, name, redisoverride.WithKey(s.hash()))
	}
	return list[i].Text, err
}

// known says what is wrong with the name of a limit that the hash does not have.
func (s *Session) known(name string, list []rules.Override) error {
	_, err := s.Resolve([]rules.Override{{Name: name, Text: "off"}})
	if err == nil {
		return nil
	}
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	if near := rules.Suggest(name, names); near != "" {
		return fmt.Errorf("%w: no limit %q is overridden in Redis; did you mean %q?", ErrArgument, name, near)
	}
	return fmt.Errorf("%w: %w", ErrArgument, err)
}

func named(list []rules.Override, name string) int {
	return slices.IndexFunc(list, func(o rules.Override) bool { return o.Name == name })
}
