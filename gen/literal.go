package gen

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rlgen/rlgen/rules"
)

// constants are the names of those values of package rules that have one. A value without is written as its number.
var constants = map[any]string{
	rules.IP: "IP", rules.User: "User", rules.Global: "Global", rules.Key: "Key", rules.Concurrency: "Concurrency", rules.Lock: "Lock",
	rules.PerGlobal: "PerGlobal", rules.PerIP: "PerIP", rules.PerUser: "PerUser", rules.PerKey: "PerKey",
	rules.ChargeAlways: "ChargeAlways", rules.ChargeSuccess: "ChargeSuccess", rules.ChargeError: "ChargeError",
	rules.SlidingLog: "SlidingLog", rules.CompactLog: "CompactLog", rules.SlidingWindow: "SlidingWindow", rules.FixedWindow: "FixedWindow",
	rules.TokenBucket: "TokenBucket", rules.LeakyBucket: "LeakyBucket", rules.GCRA: "GCRA",
	rules.Enforce: "Enforce", rules.Shadow: "Shadow",
	rules.MissingDeny: "MissingDeny", rules.MissingAllow: "MissingAllow",
	rules.FreeDeny: "FreeDeny", rules.FreeAllow: "FreeAllow",
	rules.StartClock: "StartClock", rules.StartFirst: "StartFirst", rules.RefillSmooth: "RefillSmooth", rules.RefillInterval: "RefillInterval",
	rules.DenyError: "DenyError", rules.DenyZero: "DenyZero",
	rules.FailLocal: "FailLocal", rules.FailOpen: "FailOpen", rules.FailClosed: "FailClosed",
}

// fields returns the fields of a struct of package rules that are not zero, as the inside of a keyed literal.
func (w *writer) fields(v reflect.Value) string {
	var parts []string
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			parts = append(parts, v.Type().Field(i).Name+": "+w.literal(f))
		}
	}
	return strings.Join(parts, ", ")
}

// literal returns a value of a policy as Go source.
func (w *writer) literal(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		return w.duration(d)
	}
	if v.Kind() == reflect.Uint8 {
		if name, ok := constants[v.Interface()]; ok {
			return w.qualify(rulesPath, "rules") + "." + name
		}
	}
	switch v.Kind() {
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Struct:
		return "{" + w.fields(v) + "}"
	case reflect.Slice:
		var elems []string
		for i := range v.Len() {
			elems = append(elems, w.literal(v.Index(i)))
		}
		return "[]" + w.qualify(rulesPath, "rules") + "." + v.Type().Elem().Name() + "{" + strings.Join(elems, ", ") + "}"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		return strconv.FormatUint(v.Uint(), 10)
	default:
		return strconv.FormatInt(v.Int(), 10)
	}
}

// duration returns d as a sum of the largest units: "time.Minute + 30*time.Second".
func (w *writer) duration(d time.Duration) string {
	units := []struct {
		length time.Duration
		name   string
	}{
		{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"},
		{time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}, {time.Nanosecond, "Nanosecond"},
	}
	pkg := w.qualify("time", "time")
	var parts []string
	for _, unit := range units {
		n := d / unit.length
		d %= unit.length
		switch {
		case n == 1:
			parts = append(parts, pkg+"."+unit.name)
		case n > 1:
			parts = append(parts, strconv.FormatInt(int64(n), 10)+" * "+pkg+"."+unit.name)
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, " + ")
}
