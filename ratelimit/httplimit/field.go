package httplimit

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// field is a List of Structured Fields in the making.
type field struct{ strings.Builder }

// item begins an item: a String.
func (f *field) item(name string) {
	if f.Len() > 0 {
		f.WriteString(", ")
	}
	f.WriteByte('"')
	f.WriteString(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name))
	f.WriteByte('"')
}

// parameter gives the item a parameter: an Integer, which can be larger than all counts and times of limits.
func (f *field) parameter(key string, n int64) {
	f.WriteString(";" + key + "=" + strconv.FormatInt(n, 10))
}

// safe is name as a String can hold it. What it cannot hold is percent-encoded, and so is the percent sign, so that
// names that differ stay so.
func safe(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '%' {
			b.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// policyField is a RateLimit-Policy.
func policyField(all []said) string {
	var f field
	for i := range all {
		s := &all[i]
		f.item(s.name)
		f.parameter("q", s.quota())
		if s.rule < 0 {
			f.WriteString(`;qu="concurrent-requests"`)
		} else if w := s.window(); w >= time.Second {
			f.parameter("w", seconds(w))
		}
	}
	return f.String()
}

// limitField is a RateLimit.
func limitField(all []said) string {
	var f field
	for i := range all {
		s := &all[i]
		if s.rule < 0 && s.answer.Allowed {
			continue
		}
		f.item(s.name)
		f.parameter("r", s.answer.Remaining)
		if wait, ok := s.reset(); ok {
			f.parameter("t", seconds(wait))
		}
	}
	return f.String()
}

// quota is the most that the rule allows at once.
func (s *said) quota() int64 {
	if s.rule < 0 {
		return s.limit.Count
	}
	return s.limit.Capacity(s.limit.Rules[s.rule])
}

// window is the time in which the quota comes back.
func (s *said) window() time.Duration {
	r := s.limit.Rules[s.rule]
	if quota := s.quota(); quota != r.Count {
		return time.Duration(float64(r.Window) * (float64(quota) / float64(r.Count)))
	}
	return r.Window
}

// reset is how long it is until there is more, and whether that is known and what the client waits for.
func (s *said) reset() (time.Duration, bool) {
	if !s.answer.Allowed {
		return s.answer.RetryAfter, s.answer.RetryAfter != store.Never
	}
	return s.answer.ResetAfter, !s.denied && s.answer.ResetAfter != store.Never
}

// seconds is d in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return ratelimit.RetrySeconds(d)
}

// writeX writes the fields that have room for one rule.
func writeX(header http.Header, all []said) {
	s := slices.MinFunc(all, tighter)
	if s.rule < 0 {
		return
	}
	header.Set("X-RateLimit-Limit", strconv.FormatInt(s.quota(), 10))
	header.Set("X-RateLimit-Remaining", strconv.FormatInt(s.answer.Remaining, 10))
	s.denied = false // whatever s says, it is what the answer says
	if wait, ok := s.reset(); ok {
		at := time.Now().Add(wait + time.Second - time.Nanosecond)
		header.Set("X-RateLimit-Reset", strconv.FormatInt(at.Unix(), 10))
	}
}
