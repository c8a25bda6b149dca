package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/live"
	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/rules"
)

// overrideJSON is what an override makes of a limit.
type overrideJSON struct {
	// Text is as the file has it.
	Text string `json:"text"`
	// Directive is what holds then; empty where the limit is off.
	Directive string `json:"directive,omitempty"`
	At        string `json:"at"`
}

// text is what holds with the override.
func (o *overrideJSON) text() string {
	if o.Directive == "" {
		return "off"
	}
	return strings.TrimPrefix(o.Directive, rules.Namespace)
}

// overriding is where overrides are: files and the hash in Redis, a later one in place of earlier ones.
type overriding struct {
	from                  []string
	redis, redisFile, key string
}

// withOverrides adds the flag -overrides, and those that say where the hash is.
func (f *flags) withOverrides(usage string) *overriding {
	o := new(overriding)
	f.Func("overrides", usage+", or redis for the hash; several times in the program's order", func(text string) error {
		o.from = append(o.from, text)
		return nil
	})
	redisFlags(f.FlagSet, &o.redis, &o.redisFile, &o.key)
	return o
}

// resolve reads overrides for some methods, and prints what is wrong with them. The exit code is not exitOK where something is.
func (c *command) resolve(ctx context.Context, o *overriding, methods []gen.Method) (overridden map[*rules.Policy]*rules.Overridden, code int) {
	if len(o.from) == 0 {
		return nil, exitOK
	}
	c = &command{stdout: c.stdout, stderr: plain{c.stderr}}
	var layers [][]rules.Override
	for _, from := range o.from {
		layer, code := c.layer(ctx, o, from)
		if code != exitOK {
			return nil, code
		}
		layers = append(layers, layer)
	}
	var policies []*rules.Policy
	for _, m := range methods {
		policies = append(policies, m.Policy)
	}
	overridden, err := rules.Resolve(policies, layers...)
	if err != nil {
		fmt.Fprintln(c.stderr, err)
		return nil, exitFindings
	}
	return overridden, exitOK
}

// layer reads one file, or the hash, and prints why it cannot.
func (c *command) layer(ctx context.Context, o *overriding, from string) ([]rules.Override, int) {
	if from == live.HashOfOverrides {
		at, err := live.Find(o.redis, o.redisFile)
		var layer []rules.Override
		if err == nil {
			layer, err = live.ReadHash(ctx, at, o.key)
		}
		if err != nil {
			return nil, c.failAt(at, err)
		}
		return layer, exitOK
	}
	layer, err := live.ReadFile(from)
	var unread *fs.PathError
	switch {
	case errors.As(err, &unread):
		return nil, c.failAt(live.Address{}, err)
	case err != nil:
		fmt.Fprintln(c.stderr, err) // with their places
		return nil, exitFindings
	}
	return layer, exitOK
}

// override writes beside the limits of m what o makes of them, which may be nil.
func (m *methodJSON) override(o *rules.Overridden) {
	if o == nil {
		return
	}
	for i := range m.Limits {
		if o.By[i] == nil {
			continue
		}
		is := &overrideJSON{Text: o.By[i].Text, At: o.By[i].At.String()}
		if !o.Off[i] {
			now := o.Policy.Limits[i]
			now.Name = o.Written.Limits[i].Name
			is.Directive = rules.Namespace + now.String()
		}
		m.Limits[i].Override = is
	}
}
