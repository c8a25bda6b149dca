package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/rules/overridefile"
)

// ReadFile reads the overrides in a file. A file that cannot be read is an [ErrArgument].
func ReadFile(path string) ([]rules.Override, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: -overrides: %w", ErrArgument, err)
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
	key = cmp.Or(key, redisoverride.Key)
	list, err := readHash(ctx, client, key)
	if err == nil {
		err = sized(key, list)
	}
	return list, err
}

// readHash reads a hash, of which programs may refuse the size.
func readHash(ctx context.Context, client redis.UniversalClient, key string) (list []rules.Override, err error) {
	_, err = redisoverride.Amend(ctx, client, func(now []rules.Override) (map[string]string, error) {
		list = now
		return nil, nil
	}, redisoverride.WithKey(key))
	if err != nil {
		return nil, fmt.Errorf("redis hash %s: %w", key, err)
	}
	return list, nil
}

// sized says what is wrong with the size of a hash.
func sized(key string, list []rules.Override) error {
	if err := redisoverride.CheckSize(list); err != nil {
		return fmt.Errorf("redis hash %s: %w", key, err)
	}
	return nil
}

// HashKey is the key of the hash of overrides.
func (s *Session) HashKey() string { return cmp.Or(s.options.OverridesKey, redisoverride.Key) }

// Layers are the overrides of a program, as its sources have them, a later one in place of earlier ones.
type Layers struct {
	session *Session
	layers  [][]rules.Override
	hash    int // which of them is the hash in Redis
}

// Read reads the files of overrides, and the hash in Redis, which is the last of them where the options do not say when it comes.
func (s *Session) Read(ctx context.Context) (Layers, error) {
	hash, err := readHash(ctx, s.client, s.HashKey())
	if err != nil {
		return Layers{}, err
	}
	return s.among(hash)
}

// among puts the hash among the files.
func (s *Session) among(hash []rules.Override) (Layers, error) {
	l := Layers{session: s, hash: -1}
	sources := s.options.Overrides
	if !slices.Contains(sources, HashOfOverrides) {
		sources = append(slices.Clone(sources), HashOfOverrides)
	}
	for i, from := range sources {
		layer, err := hash, error(nil)
		if from == HashOfOverrides {
			l.hash = i
		} else if layer, err = ReadFile(from); err != nil {
			return l, wrong(err)
		}
		l.layers = append(l.layers, layer)
	}
	return l, nil
}

// Hash is what the hash has, by name.
func (l Layers) Hash() []rules.Override { return l.layers[l.hash] }

// Resolve says what the layers make of the limits, or what is wrong with them for the program's.
func (l Layers) Resolve() (map[*rules.Policy]*rules.Overridden, error) {
	if err := sized(l.session.HashKey(), l.Hash()); err != nil {
		return nil, err
	}
	return rules.Resolve(l.session.policies, l.layers...)
}

// with are the layers with another text for each name in the hash, empty for none.
func (l Layers) with(entries []Entry) Layers {
	hash := slices.Clone(l.Hash())
	for _, e := range entries {
		hash = slices.DeleteFunc(hash, func(o rules.Override) bool { return o.Name == e.Name })
		if e.Text != "" {
			hash = append(hash, rules.Override{Name: e.Name, Text: e.Text, At: rules.Place{Source: l.session.HashKey()}})
		}
	}
	l.layers = slices.Clone(l.layers)
	l.layers[l.hash] = hash
	return l
}

// holds is what overrides the limit of a name: nil if nothing does. Of a name that no limit has, ok is false.
func (l Layers) holds(name string) (by *rules.Override, ok bool) {
	now, err := l.Resolve()
	if err != nil {
		now = nil
	}
	meant, _ := rules.Resolve(l.session.policies, []rules.Override{{Name: name, Text: "off"}})
	for _, p := range l.session.policies {
		for i := 0; meant[p] != nil && i < len(p.Limits); i++ {
			if meant[p].By[i] == nil {
				continue
			}
			ok = true
			if now[p] != nil && now[p].By[i] != nil {
				return now[p].By[i], true
			}
		}
	}
	return nil, ok
}

// text is what the hash has of a name.
func (l Layers) text(name string) (text string, ok bool) {
	for _, o := range l.Hash() {
		if o.Name == name {
			return o.Text, true
		}
	}
	return "", false
}

// spelled is the name by which the hash has the limit of a name, behind its type or without it; the name itself where it has none.
func (l Layers) spelled(name string) string {
	if _, ok := l.text(name); ok {
		return name
	}
	for _, o := range l.Hash() {
		if rules.SameLimit(l.session.policies, name, o.Name) {
			return o.Name
		}
	}
	return name
}

// Entry is what the hash has, or is to have, of a limit.
type Entry struct {
	Name string
	Text string // empty for none
}

// Changed is what has become of an entry.
type Changed struct {
	// Name is as the hash has it, which may be that of the limit without its type.
	Name, Before, After string
	// Was says that the hash had it before, though it may have been without a text.
	Was bool
	// By is what overrides the limit now; nil if nothing does.
	By *rules.Override
	// Known says that a limit has this name.
	Known bool
}

// Change is what has been done to the hash.
type Change struct {
	Entries []Changed
	// Told is how many programs listen, as redisoverride.Change has it.
	Told int64
	// Untold is why none could be told; empty if they were.
	Untold string
	// Fault is what was wrong with the hash before, and is so still.
	Fault error
}

// Change writes entries into the hash at once, unless programs, which heed it as a whole or not at all, would refuse it then; what others write meanwhile is judged with
// it. With dry, it changes nothing. What is wrong with the entries alone is an [ErrArgument]; so is the removal of a name that neither the hash nor a limit has.
func (s *Session) Change(ctx context.Context, entries []Entry, dry bool) (c Change, err error) {
	var refused error
	plan := func(hash []rules.Override) (texts map[string]string, err error) {
		c, texts, refused = s.plan(hash, entries)
		return texts, refused
	}
	if dry {
		hash, err := readHash(ctx, s.client, s.HashKey())
		if err == nil {
			_, err = plan(hash)
		}
		c.Told = -1
		return c, err
	}
	c.Told, err = redisoverride.Amend(ctx, s.client, plan, redisoverride.WithKey(s.HashKey()))
	switch {
	case errors.Is(err, redisoverride.ErrUntold):
		c.Untold, err = strings.TrimPrefix(err.Error(), redisoverride.ErrUntold.Error()+": "), nil
	case errors.Is(err, redisoverride.ErrUnsure):
		err = fmt.Errorf("%w; rlgen override says what the hash has", err)
	case err != nil && refused == nil:
		err = fmt.Errorf("nothing is changed: %w", err)
	}
	return c, err
}

// plan says what becomes of the hash by entries, and what is to be written for it.
func (s *Session) plan(hash []rules.Override, entries []Entry) (c Change, texts map[string]string, err error) {
	before, err := s.among(hash)
	if err != nil {
		return c, nil, err
	}
	if entries, err = before.spell(entries); err != nil {
		return c, nil, err
	}
	after := before.with(entries)
	if c.Fault, err = s.judge(before, after, entries); err != nil {
		return c, nil, err
	}
	texts = make(map[string]string)
	for _, e := range entries {
		by, known := after.holds(e.Name)
		was, ok := before.text(e.Name)
		c.Entries = append(c.Entries, Changed{e.Name, was, e.Text, ok, by, known})
		if e.Text != "" || ok {
			texts[e.Name] = e.Text
		}
	}
	return c, texts, nil
}

// spell is entries by the names that the hash has of their limits.
func (l Layers) spell(entries []Entry) ([]Entry, error) {
	var spelled []Entry
	for i, e := range entries {
		e.Name = l.spelled(e.Name)
		if j := slices.IndexFunc(spelled, func(other Entry) bool { return other.Name == e.Name }); j >= 0 {
			return nil, fmt.Errorf("%w: found %q and %q, which are the same limit, want it once", ErrArgument, entries[j].Name, entries[i].Name)
		}
		spelled = append(spelled, e)
	}
	return spelled, nil
}

// judge says why entries may not be written, and else what stays wrong of what was wrong before.
func (s *Session) judge(before, after Layers, entries []Entry) (fault, err error) {
	removes := true
	var own []rules.Override
	for _, e := range entries {
		if e.Text != "" {
			removes = false
			own = append(own, rules.Override{Name: e.Name, Text: e.Text, At: rules.Place{Source: s.HashKey()}})
		} else if _, ok := before.text(e.Name); !ok {
			if err := s.known(e.Name, before.Hash()); err != nil {
				return nil, err
			}
		}
	}
	_, fault = after.Resolve()
	if fault == nil {
		return nil, nil
	}
	_, was := before.Resolve()
	if was != nil && removes {
		return fault, nil // which programs refuse already
	}
	_, wrong := rules.Resolve(s.policies, own)
	done, hint := "set", ""
	switch {
	case removes:
		done, hint = "removed", before.together(entries)
	case errors.Is(fault, rules.ErrUnlike):
		hint = "; what belongs together is set at once: rlgen override set One 2,1h Two 2,1h"
	case was != nil && wrong == nil:
		hint = "; they refuse it already: set what is wrong right with it, or remove it before: " + cmp.Or(redisoverride.Mend(s.policies, before.Hash(), redisoverride.WithKey(s.HashKey())), "rlgen override remove name")
	}
	if err = fmt.Errorf("nothing is %s, since programs would refuse all of the hash: %w%s", done, fault, hint); wrong != nil {
		err = fmt.Errorf("%w: %w", ErrArgument, err)
	}
	return nil, err
}

// together says what is to be removed with entries, which cannot be removed alone.
func (l Layers) together(entries []Entry) string {
	for _, other := range l.Hash() {
		if _, err := l.with(append(slices.Clone(entries), Entry{Name: other.Name})).Resolve(); err == nil {
			return fmt.Sprintf("; remove %q with it: rlgen override remove takes several names", other.Name)
		}
	}
	return "; what belongs together is removed at once: rlgen override remove takes several names"
}

// known says what is wrong with the name of a limit that the hash does not have.
func (s *Session) known(name string, list []rules.Override) error {
	_, err := rules.Resolve(s.policies, []rules.Override{{Name: name, Text: "off"}})
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

// Names says which words are names of limits.
func (s *Session) Names() map[string]bool {
	names := make(map[string]bool)
	for _, p := range s.policies {
		for i := range p.Limits {
			names[p.Name(i)], names[p.Type+"."+p.Name(i)] = true, true
		}
	}
	return names
}
