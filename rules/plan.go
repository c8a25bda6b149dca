package rules

// Alternative reports whether no call meets both limits, because they are for different plans. A limit with a plan applies to the
// callers on it alone, and one without to everybody, beside those of the caller's plan.
func (l *Limit) Alternative(other *Limit) bool {
	return l.Plan != other.Plan && l.Plan != "" && other.Plan != ""
}

// SameState reports how what two limits keep of their calls differs, nil if each could read the other's: they count by the same
// algorithm, with the same of every option that it reads but burst. Their rules may differ.
func SameState(a, b *Limit) error {
	like := *b
	like.Rules, like.Burst, like.Count = a.Rules, a.Burst, a.Count
	return SameCount(a, &like)
}
