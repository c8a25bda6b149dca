package rules

import (
	"errors"
	"fmt"
)

// Alternative reports whether no call meets both limits, because they are for different plans. A limit with a plan applies to the
// callers on it alone, and one without to everybody, beside those of the caller's plan.
func (l *Limit) Alternative(other *Limit) bool {
	return l.Plan != other.Plan && l.Plan != "" && other.Plan != ""
}

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

// SameState reports how what two limits keep of their calls differs, nil if each could read the other's: they count by the same
// algorithm, with the same of every option that it reads but burst. Their rules may differ.
func SameState(a, b *Limit) error {
	like := *b
	like.Rules, like.Burst, like.Count = a.Rules, a.Burst, a.Count
	return SameCount(a, &like)
}
