package rules

import (
	"errors"
	"fmt"
	"slices"
)

// perCall are the options of which limits that share a count may each have their own: they say what one call is to the
// limit, and nothing of how it counts.
var perCall = []string{
	"by", "cost", "free", "when", "name", "bucket", "prefix", "missing", "onfail",
	"charge", "wait", "prefetch", "mode", "plan", "deny", "lease",
}

// SameCount reports how the counts that two limits keep differ, nil if each could take the other's for its own: they
// have the same rules in the same order, the same algorithm, and the same of every option that the algorithm reads.
func SameCount(a, b *Limit) error {
	if !slices.Equal(a.Rules, b.Rules) {
		return fmt.Errorf("found the rules %s and %s, want the same", rulesText(a), rulesText(b))
	}
	if a.Count != b.Count {
		return fmt.Errorf("found %d and %d calls in flight, want the same", a.Count, b.Count)
	}
	if a.Queues() != b.Queues() {
		return errors.New("found a leaky-bucket with wait, which is a queue, and one without, want the same")
	}
	for _, o := range options {
		if slices.Contains(perCall, o.name) {
			continue
		}
		if in, other := o.print(a), o.print(b); in != other {
			return fmt.Errorf("found %s and %s, want the same", o.said(in), o.said(other))
		}
	}
	return nil
}

func rulesText(l *Limit) string {
	text := ""
	for i, r := range l.Rules {
		if i > 0 {
			text += " "
		}
		text += r.String()
	}
	return text
}

// said returns the option with a printed value, which is empty for the default.
func (o option) said(value string) string {
	if value == "" {
		return "no " + o.name
	}
	return o.pair(value)
}
