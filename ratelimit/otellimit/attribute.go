package otellimit

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// result is what became of a call.
type result uint8

const (
	none result = iota
	acquired
	rejected
	canceled
	failed
)

var results = [...]string{acquired: "acquired", rejected: "rejected", canceled: "canceled", failed: "error"}

// key is what a set of attributes is made of; a zero field has no attribute.
type key struct {
	policy  *rules.Policy
	limit   int // of the policy, or wholeCall
	result  result
	source  string
	mode    string
	failure string
	banned  bool
}

// wholeCall stands for all of a policy's limits.
const wholeCall = -1

// limitKey is the key of what one limit said.
func limitKey(p *rules.Policy, l *ratelimit.LimitDecision, r result) key {
	return key{policy: p, limit: l.Index, result: r, source: sourceOf(l.Source), mode: l.Mode.String(), banned: r == rejected && l.Banned > 0}
}

// sourceOf is who decided a limit.
func sourceOf(s ratelimit.Source) string {
	if s == ratelimit.SourceOpen {
		return "fallback"
	}
	return s.String()
}

func (k key) attributes() []attribute.KeyValue {
	var kvs []attribute.KeyValue
	add := func(name, value string) {
		if value != "" {
			kvs = append(kvs, attribute.String(name, value))
		}
	}
	if k.policy != nil {
		add("code.function.name", k.policy.Type+"."+k.policy.Method)
		if k.limit != wholeCall {
			add("rate_limiting.policy", k.policy.Name(k.limit))
		}
	}
	add("rate_limiting.result", results[k.result])
	add("rate_limiting.mode", k.mode)
	add("rate_limiting.source", k.source)
	add("error.type", k.failure)
	if k.banned {
		kvs = append(kvs, attribute.Bool("rate_limiting.banned", true))
	}
	return kvs
}

// measurement has the attributes of a key as instruments take them.
type measurement struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// sets keeps the measurement of each key, so that a call allocates none. The zero sets is empty and ready.
type sets struct {
	mu   sync.Mutex // of who writes
	kept atomic.Pointer[map[key]measurement]
}

// maxSets is how many sets are kept: many more than a program has limits, and a bound where policies are made anew.
const maxSets = 1 << 12

func (s *sets) of(k key) measurement {
	if kept := s.kept.Load(); kept != nil {
		if m, ok := (*kept)[k]; ok {
			return m
		}
	}
	return s.make(k)
}

func (s *sets) make(k key) measurement {
	option := metric.WithAttributeSet(attribute.NewSet(k.attributes()...))
	m := measurement{[]metric.AddOption{option}, []metric.RecordOption{option}}
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := make(map[key]measurement)
	if kept := s.kept.Load(); kept != nil && len(*kept) < maxSets {
		maps.Copy(grown, *kept)
	}
	grown[k] = m
	s.kept.Store(&grown)
	return m
}
