package traffic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// model finds a field of an object by encoding/json alone.
func model(object []byte, path []string) (text string, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return "", false
	}
	raw, ok := fields[path[0]]
	if !ok || string(raw) == "null" {
		return "", false
	}
	if len(path) > 1 {
		return model(raw, path[1:])
	}
	if raw[0] != '"' {
		return string(raw), true
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil && func() bool { text = s; return true }()
}

// paths are of what the objects of tests have, or may have.
var paths = [][]string{{"a"}, {"b"}, {"ü"}, {"a", "b"}, {"a", "b", "a"}, {`"`}, {""}, {"\ufffd"}}

// sameAsModel holds that the fields of an object are those which the model finds.
func sameAsModel(t *testing.T, object []byte) {
	t.Helper()
	var fields map[string]json.RawMessage
	wrong := json.Unmarshal(object, &fields)
	if got := checkObject(object); fmt.Sprint(got) != fmt.Sprint(wrong) {
		t.Fatalf("checkObject(%q) = %v, want %v", object, got, wrong)
	}
	if wrong != nil {
		return
	}
	values := make([][]byte, len(paths))
	pick(object, paths, values)
	for i, path := range paths {
		want, found := model(object, path)
		got, ok, err := field(values[i], path[1:])
		if string(got) != want && found || ok != found || err != nil {
			t.Fatalf("%q has %q at %q: %v, error %v, want %q: %v", object, got, path, ok, err, want, found)
		}
	}
}

// value writes a value of JSON at random, with white space where there may be some.
func value(b *strings.Builder, r *rand.Rand, depth int) {
	space := func() { b.WriteString([]string{"", "", " ", "\t\r\n"}[r.IntN(4)]) }
	word := func() {
		b.WriteString([]string{`"a"`, `"b"`, `"\u0061"`, `"ü"`, `"\""`, `""`, `"}"`, `"a\\"`, `",]{"`, "\"\xff\""}[r.IntN(10)])
	}
	kind := r.IntN(8)
	if depth == 0 {
		kind = 6
	} else if depth > 3 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0:
		b.WriteString([]string{"null", "true", "false", "-1.5e+3", "0", "17"}[r.IntN(6)])
	case 1, 2, 3, 4:
		word()
	case 5:
		b.WriteByte('[')
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			value(b, r, depth+1)
			space()
		}
		b.WriteByte(']')
	default:
		b.WriteByte('{')
		for i := range r.IntN(5) {
			if i > 0 {
				b.WriteByte(',')
			}
			space()
			word()
			space()
			b.WriteByte(':')
			space()
			value(b, r, depth+1)
			space()
		}
		space()
		b.WriteByte('}')
	}
}

// TestFieldsOfJSON holds that fields are those which encoding/json finds, in objects of any kind, and in what is none any more since a byte of it is another.
func TestFieldsOfJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		var b strings.Builder
		value(&b, r, 0)
		object := []byte(b.String())
		sameAsModel(t, object)
		object[r.IntN(len(object))] = `{}[]:,"\ 0n`[r.IntN(11)]
		if object[0] > ' ' {
			sameAsModel(t, object)
		}
	}
}

func FuzzFieldsOfJSON(f *testing.F) {
	f.Add([]byte(`{"a":{"b":{"a":1}},"ü":null,"b":"\u0061"}`))
	f.Add([]byte(`{"a":1,"a":[{}],"b":-0.5}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, object []byte) {
		if len(object) > 0 && object[0] > ' ' {
			sameAsModel(t, object)
		}
	})
}
