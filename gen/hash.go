package gen

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

// hashPrefix begins the line of a generated file that has the hash of what it was made from. The line stands right
// behind the header, is no doc comment, and gofmt leaves it alone.
const hashPrefix = "//rlgen:hash "

// hashVersion is part of every hash: it changes where the same input makes another file.
const hashVersion = "1"

// hash returns the hash of what the file is made from: types, signatures and directives, each in one form and in one
// order. Where they stand, and what else stands beside them, has no part in it.
func (o *output) hash() string {
	slices.Sort(o.inputs)
	h := sha256.New()
	for _, line := range append([]string{hashVersion, o.unit.pkg.Name, o.unit.pkg.PkgPath, o.build}, o.inputs...) {
		fmt.Fprintf(h, "%s\n", strconv.Quote(line))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// hashOf returns the hash that a generated file carries, empty if it has none.
func hashOf(text []byte) string {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if hash, ok := bytes.CutPrefix(line, []byte(hashPrefix)); ok {
			return string(hash)
		}
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			break
		}
	}
	return ""
}

// inputs say what the wrapper file of services and methods is made from.
func (p *plan) inputs(services []*service, methods []*method) []string {
	var list []string
	for _, s := range services {
		list = append(list, p.wrappers[s].input(), p.providers[s].input())
	}
	for _, m := range methods {
		list = append(list, m.input())
	}
	return list
}

// input says what a wrapper's type, policies and constructor are made from.
func (p *wrapperPlan) input() string {
	s := p.service
	form := "interface"
	if s.iface == nil {
		form = "concrete" + s.star()
	}
	var params []string
	for t := range s.typeParams().TypeParams() {
		params = append(params, t.Obj().Name()+" "+typeText(t.Constraint()))
	}
	var methods []string
	for _, m := range p.methods {
		methods = append(methods, m.fn.Name()+": "+m.limitsText())
	}
	for _, seal := range s.seals {
		methods = append(methods, "seal "+typeText(seal.typ))
	}
	slices.Sort(methods)
	return fmt.Sprintf("%s %s[%s] %s\n%s", form, s.name(), strings.Join(params, ", "), s.wrapper(), strings.Join(methods, "\n"))
}

// input says what a method of a wrapper is made from.
func (m *method) input() string {
	var b strings.Builder
	fmt.Fprintf(&b, "method %s.%s%s", m.service.name(), m.fn.Name(), typeText(m.sig))
	if m.from != nil {
		fmt.Fprintf(&b, " from %s", m.from.name())
	}
	if m.holds() {
		fmt.Fprintf(&b, " hands %d", m.handing())
	}
	for _, l := range m.limits {
		fmt.Fprintf(&b, "\n%s", l.Limit)
		for _, e := range []*expression{l.by, l.cost, l.when} {
			if e != nil {
				fmt.Fprintf(&b, "\n%s %d", typeText(e.typ), e.form(m.service.unit.types))
			}
		}
	}
	return b.String()
}

// input says what a provider is made from; p may be nil.
func (p *provider) input() string {
	if p == nil {
		return ""
	}
	if p.ctor == nil {
		return "provider " + p.name()
	}
	text := "provider " + p.name() + " " + p.ctor.Name() + typeText(p.ctor.Signature())
	if p.variadic() {
		text += " variadic, too"
	}
	return text
}

// input says what the service's part of an injection file is made from.
func (w *wrapperPlan) injected() string {
	var methods []string
	for _, m := range w.methods {
		methods = append(methods, m.fn.Name())
	}
	slices.Sort(methods)
	s := w.service
	p, reason := s.unit.provider(s)
	if p == nil {
		return fmt.Sprintf("without %s: %s %s", s.wrapper(), reason, methods)
	}
	return fmt.Sprintf("with %s: %s %t %s", s.wrapper(), p.input(), p.cleans, methods)
}

// typeText returns a type with the full paths of its packages.
func typeText(t types.Type) string { return types.TypeString(t, nil) }
