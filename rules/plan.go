package rules

import (
	"errors"
	"fmt"
)

// WithRules returns the limit with other rules, and without a Prefetch that they do not suit; or what is wrong with them.
func (l *Limit) WithRules(rules []Rule) (*Limit, error) {
	changed := *l
	changed.Rules = rules
	if len(rules) == 0 || l.Kind.Holds() {
		return nil, fmt.Errorf("found %d rules for a limit of kind %v, want one or more on a limit that counts calls", len(rules), l.Kind)
	}
	var errs Errors
	changed.checkOverridden(&errs)
	if len(errs) > 0 {
		return nil, errors.New(errs[0].Msg)
	}
	changed.suitPrefetch()
	return &changed, nil
}
