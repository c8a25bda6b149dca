package httplimit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// maxShown is how many rules an answer tells of: proxies do not take headers of any length.
const maxShown = 16

type recordKey struct{}

// record is what the limits said that were asked for one request.
type record struct {
	mu   sync.Mutex
	said []said
}

func recordIn(ctx context.Context) *record {
	rec, _ := ctx.Value(recordKey{}).(*record)
	return rec
}

// said is what one rule said last.
type said struct {
	typ, method, name string
	limit             *rules.Limit
	rule              int    // -1 for a concurrency, which has none
	key               string // holds the caller's id: it is compared, and never shown

	answer ratelimit.RuleDecision
	denied bool // the call that it is about
}

// Observe keeps the answers of d.
func (rec *record) Observe(_ context.Context, d *ratelimit.Decision, err error) {
	if err != nil && !errors.Is(err, ratelimit.ErrExceeded) {
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for i := range d.Limits {
		l := &d.Limits[i]
		if l.Mode == rules.Shadow {
			continue // it is nobody's limit yet
		}
		s := said{
			typ: d.Policy.Type, method: d.Policy.Method, name: d.Policy.Name(l.Index),
			limit: &d.Policy.Limits[l.Index], rule: -1, key: l.Key, denied: err != nil,
		}
		if l.Computed != nil {
			own := *s.limit
			own.Rules, s.limit = l.Computed, &own
		}
		if s.limit.Kind == rules.Concurrency && l.Source != ratelimit.SourceOpen {
			s.answer = ratelimit.RuleDecision{Allowed: l.Allowed, RetryAfter: d.RetryAfter}
			rec.keep(s)
		}
		for j := range l.Rules {
			s.rule, s.answer = j, l.Rules[j]
			rec.keep(s)
		}
	}
}

// keep adds s, or puts it in the place of what the same rule said before of the same id, or of one that has more.
func (rec *record) keep(s said) {
	at := slices.IndexFunc(rec.said, func(o said) bool {
		return o.name == s.name && o.typ == s.typ && o.rule == s.rule
	})
	switch {
	case at < 0:
		rec.said = append(rec.said, s)
	case rec.said[at].key == s.key || tighter(s, rec.said[at]) <= 0:
		rec.said[at] = s
	}
}

// tighter orders what denies for longer before what denies for less or not at all, and else by what remains.
func tighter(a, b said) int {
	return cmp.Or(cmp.Compare(b.retry(), a.retry()), cmp.Compare(a.answer.Remaining, b.answer.Remaining))
}

// retry is how long s denies, 0 if it does not.
func (s *said) retry() time.Duration {
	if s.answer.Allowed {
		return 0
	}
	return s.answer.RetryAfter
}

// shown returns what an answer is to tell of, in the order in which it was asked.
func (rec *record) shown() []said {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	order := make([]int, len(rec.said))
	for i := range order {
		order[i] = i
	}
	if len(order) > maxShown {
		slices.SortStableFunc(order, func(i, j int) int { return tighter(rec.said[i], rec.said[j]) })
		order = order[:maxShown]
		slices.Sort(order)
	}
	shown := make([]said, len(order))
	for i, at := range order {
		shown[i] = rec.said[at]
	}
	return distinct(shown)
}

// distinct gives the rules of all names that differ.
func distinct(all []said) []said {
	for i := range all {
		s := &all[i]
		s.name = safe(s.item())
		if slices.ContainsFunc(all[:i], func(o said) bool { return o.name == s.name }) {
			s.name = safe(s.typ) + " " + s.name
		}
	}
	return all
}

// item is the name of s in the fields: that of its limit, and where that has several rules, the window.
func (s *said) item() string {
	if s.rule < 0 || len(s.limit.Rules) == 1 {
		return s.name
	}
	_, window, _ := strings.Cut(s.limit.Rules[s.rule].String(), ",")
	return s.name + " " + window
}

// violated are the names of what denied the call of a method.
func (rec *record) violated(typ, method string) []string {
	var names []string
	for _, s := range rec.shown() {
		if !s.answer.Allowed && s.typ == typ && s.method == method {
			names = append(names, s.name)
		}
	}
	return names
}
