package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/rules"
)

// planOverride says what an override is to be, and returns what writes it.
func (d *Dashboard) planOverride(o order) (what string, do func(context.Context) error, err error) {
	if d.client == nil {
		return "", nil, refusef("there is nowhere to write overrides to, want WithRedis")
	}
	l, ok := d.named(o.Limit)
	if !ok {
		return "", nil, refusef("found the limit %q, want one of this page's", o.Limit)
	}
	text := l.become(o.Text)
	told := strings.Join(strings.Fields(text), " ") // so that spaces hide nothing
	if what = fmt.Sprintf("override %s by %q", l.Handle, rules.Brief(told, mostTold)); text == "" {
		what = fmt.Sprintf("let %s hold as it is written", l.Handle)
	}
	return what, func(ctx context.Context) error { return d.override(ctx, l, text, text == strings.TrimSpace(o.Text)) }, nil
}

// named returns the first limit that overrides call so.
func (d *Dashboard) named(handle string) (limitView, bool) {
	all := d.limitsOf(d.limiter.Survey())
	i := slices.IndexFunc(all, func(l limitView) bool { return l.Handle == handle })
	if i < 0 {
		return limitView{}, false
	}
	return all[i], true
}

// become is the override that makes of the limit what was asked for.
func (l *limitView) become(asked string) string {
	switch asked = strings.TrimSpace(asked); asked {
	case "shadow", "enforce":
		words := strings.Fields(l.Override)
		words = slices.DeleteFunc(words, func(w string) bool { return w == "off" || strings.HasPrefix(w, "mode=") })
		return strings.Join(append(words, "mode="+asked), " ")
	}
	return asked
}

// override writes an override, or takes it away where text is empty, once it is known to fit; and waits until this instance heeds it. A text that is made of what
// overrides the limit already, and not as it was asked for, is not written once that is another.
func (d *Dashboard) override(ctx context.Context, l limitView, text string, asked bool) error {
	ctx, cancel := context.WithTimeout(ctx, overrideBudget)
	defer cancel()
	written := ""
	_, err := redisoverride.Amend(ctx, d.client, func(now []rules.Override) (map[string]string, error) {
		name, found := d.entry(now, l.Handle)
		if ours := l.From == d.hash; !asked && (ours || found != "") && (!ours || found != l.Override) {
			return nil, refusef("nothing is changed: found %s overridden by %q meanwhile, want %q, of which this was made; look again", l.Handle, found, l.Override)
		}
		others := slices.DeleteFunc(slices.Clone(now), func(o rules.Override) bool { return o.Name == name })
		changed := slices.Clip(others)
		if text != "" {
			changed = append(changed, rules.Override{Name: name, Text: text})
		}
		if _, err := rules.Resolve(d.policies(), d.layers(changed)...); err != nil {
			return nil, refusef("nothing is changed: %w%s", err, d.hint(err, others))
		}
		written = name
		return map[string]string{name: text}, nil
	}, redisoverride.WithKey(d.hash))
	if errors.As(err, new(refusal)) {
		return err
	}
	if err != nil && !errors.Is(err, redisoverride.ErrUntold) {
		return fmt.Errorf("dashboard: %w", err)
	}
	return d.heed(ctx, l.Handle, written, text)
}

// entry is the name by which a hash has a limit, which may be without its type, and its text.
func (d *Dashboard) entry(hash []rules.Override, handle string) (name, text string) {
	policies := d.policies()
	for i := range hash {
		if rules.SameLimit(policies, hash[i].Name, handle) {
			return hash[i].Name, hash[i].Text
		}
	}
	return handle, ""
}

// overrideBudget is how long writing an override and waiting for it may take.
const overrideBudget = 5 * time.Second

// hint is how what a page cannot do is done.
func (d *Dashboard) hint(err error, hash []rules.Override) string {
	if errors.Is(err, rules.ErrUnlike) {
		return "; limits that share a bucket are changed together by rlgen override"
	}
	if mend := redisoverride.Mend(d.policies(), hash, redisoverride.WithKey(d.hash)); mend != "" {
		return "; what is wrong in " + d.hash + " is taken away by " + mend
	}
	return ""
}

// aside is of a change that is done, and of what has come between it and those who are to heed it.
type aside struct{ text string }

func (a *aside) Error() string { return a.text }

func asidef(format string, args ...any) error { return &aside{fmt.Sprintf(format, args...)} }

const unheeded = "this instance does not heed it yet: " +
	"does it run override.New with redisoverride.New of this Redis and this hash (WithOverridesKey), or ratelimitfx.Overrides with it?"

// How often it is looked whether this instance heeds an override, and whether another has overtaken that.
const (
	looksAtLimit = 10 * time.Millisecond
	looksAtHash  = 250 * time.Millisecond
)

// heed waits until this instance decides by an override, which the hash has by a name, or another overtakes it.
func (d *Dashboard) heed(ctx context.Context, handle, name, text string) error {
	tick, look := time.NewTicker(looksAtLimit), time.NewTicker(looksAtHash)
	defer tick.Stop()
	defer look.Stop()
	for {
		l, _ := d.named(handle)
		ours := l.From == d.hash
		switch {
		case text == "" && !ours, ours && l.Override == text:
			return nil
		case l.Override != "" && !ours:
			return asidef("it does not hold: %s says %q in its place", l.From, rules.Brief(l.Override, mostTold))
		}
		select {
		case <-tick.C:
		case <-look.C:
			if err := d.overtaken(ctx, name, text); err != nil {
				return err
			}
		case <-ctx.Done():
			return cmp.Or(d.overtaken(context.WithoutCancel(ctx), name, text), asidef(unheeded))
		}
	}
}

// overtaken says what the hash has in place of a text that was written there. Where that cannot be known, it says nothing.
func (d *Dashboard) overtaken(ctx context.Context, name, text string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, failed := redisoverride.Amend(ctx, d.client, func(now []rules.Override) (map[string]string, error) {
		switch _, found := d.entry(now, name); {
		case found == text:
		case found == "":
			err = asidef("it was overtaken: somebody has taken it away since")
		default:
			err = asidef("it was overtaken by %q, which somebody has written since", rules.Brief(found, mostTold))
		}
		return nil, nil
	}, redisoverride.WithKey(d.hash))
	if failed != nil {
		return nil
	}
	return err
}

// layers are the overrides in force, with what is to be in the hash in place of what was: that layer, or else the last that is empty, or one behind all others.
func (d *Dashboard) layers(hash []rules.Override) [][]rules.Override {
	layers := slices.Clone(d.limiter.Survey().Overrides)
	at := slices.IndexFunc(layers, func(of []rules.Override) bool { return len(of) > 0 && of[0].At.Source == d.hash })
	for i := 0; at < 0 && i < len(layers); i++ {
		if j := len(layers) - 1 - i; len(layers[j]) == 0 {
			at = j
		}
	}
	if at < 0 {
		return append(layers, hash)
	}
	layers[at] = hash
	return layers
}

// policies are those that are prepared.
func (d *Dashboard) policies() (all []*rules.Policy) {
	for _, p := range d.limiter.Survey().Policies {
		all = append(all, p.Written)
	}
	return all
}
