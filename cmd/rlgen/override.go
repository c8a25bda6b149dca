package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/rules/overridefile"
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

// withOverrides adds the flag -overrides.
func (f *flags) withOverrides(usage string) *string { return f.String("overrides", "", usage) }

// resolve reads a file of overrides for some methods, and prints what is wrong with it; an empty path is no overrides.
func (c *command) resolve(path string, methods []gen.Method) (overridden map[*rules.Policy]*rules.Overridden, ok bool) {
	if path == "" {
		return nil, true
	}
	text, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintf(c.stderr, "rlgen: -overrides: %v\n", err)
		return nil, false
	}
	list, err := overridefile.Parse(filepath.ToSlash(path), text)
	if err == nil {
		var policies []*rules.Policy
		for _, m := range methods {
			policies = append(policies, m.Policy)
		}
		overridden, err = rules.Resolve(policies, list)
	}
	if err != nil {
		fmt.Fprintln(c.stderr, err)
		return nil, false
	}
	return overridden, true
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
