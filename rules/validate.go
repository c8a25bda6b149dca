package rules

import (
	"errors"
	"fmt"
	"slices"
)

const maxLimits = 16

// Validate reports everything that is wrong with the policy, and nil if nothing is.
func (p *Policy) Validate() error {
	var errs []error
	if p.Type == "" || p.Method == "" {
		errs = append(errs, fmt.Errorf("rules: policy %q: want a type and a method", p.Type+"."+p.Method))
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		known, ok := findDirective(l.Kind.String())
		if !ok {
			errs = append(errs, fmt.Errorf("rules: policy %s.%s, limit %d: unknown kind", p.Type, p.Method, i))
			continue
		}
		for _, f := range checkRules(l.Rules, l.Algorithm) {
			errs = append(errs, fmt.Errorf("rules: policy %s.%s, limit %d: %s", p.Type, p.Method, i, f.msg))
		}
		for _, o := range options {
			v := o.print(l)
			if v != "" && !slices.Contains(o.suits, known.name) {
				errs = append(errs, fmt.Errorf("rules: policy %s.%s, limit %d: option %s does not suit", p.Type, p.Method, i, o.name))
			}
		}
	}
	return errors.Join(errs...)
}
