package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/rules"
)

// methodJSON is one limited method, as list -json prints it.
type methodJSON struct {
	File    string      `json:"file"`
	Line    int         `json:"line"`
	Column  int         `json:"column"`
	Package string      `json:"package"`
	Type    string      `json:"type"`
	Method  string      `json:"method"`
	Limits  []limitJSON `json:"limits"`
}

type limitJSON struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Directive is the canonical line.
	Directive string     `json:"directive"`
	Rules     []ruleJSON `json:"rules"`
	Key       string     `json:"key"`
}

type ruleJSON struct {
	Count int64 `json:"count"`
	// Window is a Go duration.
	Window string `json:"window"`
}

// list prints every limited method.
func (c *command) list(ctx context.Context, args []string) int {
	f := c.flags("rlgen list", "rlgen list [flags] [packages]")
	f.BoolVar(&f.json, "json", false, "print a JSON array")
	cfg, code, ok := c.parse(f, args)
	if !ok {
		return code
	}
	r, code := c.load(ctx, cfg)
	if r == nil {
		return code
	}
	methods := make([]methodJSON, 0, len(r.Methods))
	for _, m := range r.Methods {
		methods = append(methods, describe(cfg.Dir, m))
	}
	if f.json {
		enc := json.NewEncoder(c.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		if err := enc.Encode(methods); err != nil {
			return c.fail(err)
		}
		return code
	}
	c.printMethods(methods)
	return code
}

// printMethods prints a line for each method, and below it one for each of its limits with its key.
func (c *command) printMethods(methods []methodJSON) {
	width := 0
	for _, m := range methods {
		for _, l := range m.Limits {
			width = max(width, len(strings.TrimPrefix(l.Directive, rules.Namespace)))
		}
	}
	for _, m := range methods {
		fmt.Fprintf(c.stdout, "%s:%d: %s.%s\n", m.File, m.Line, m.Type, m.Method)
		for _, l := range m.Limits {
			fmt.Fprintf(c.stdout, "\t%-*s  %s\n", width, strings.TrimPrefix(l.Directive, rules.Namespace), l.Key)
		}
	}
}

func describe(dir string, m gen.Method) methodJSON {
	file := m.Pos.Filename
	if rel, err := filepath.Rel(dir, file); err == nil {
		file = filepath.ToSlash(rel)
	}
	p := m.Policy
	out := methodJSON{File: file, Line: m.Pos.Line, Column: m.Pos.Column, Package: p.Package, Type: p.Type, Method: p.Method}
	for i, l := range p.Limits {
		limit := limitJSON{Name: p.Name(i), Kind: l.Kind.String(), Directive: rules.Namespace + l.String(), Key: p.KeyTemplate(i)}
		for _, r := range l.Rules {
			limit.Rules = append(limit.Rules, ruleJSON{Count: r.Count, Window: r.Window.String()})
		}
		out.Limits = append(out.Limits, limit)
	}
	return out
}
