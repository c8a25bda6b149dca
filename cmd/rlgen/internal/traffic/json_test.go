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

// sameAsModel holds that the fields of an object are those which the model finds, whatever f has read before.
func sameAsModel(t *testing.T, f *finder, object []byte) {
	t.Helper()
	var all map[string]json.RawMessage
	wrong := json.Unmarshal(object, &all)
	if got := f.read(object); fmt.Sprint(got) != fmt.Sprint(wrong) {
		t.Fatalf("read(%q) = %v, want %v", object, got, wrong)
	}
	if end := endOfObject(object, 0, 0, nil); object[0] == '{' && (end >= 0 && space(object, end) == len(object)) != (wrong == nil) {
		t.Fatalf("endOfObject(%q) = %d of %d, want what is right for %v", object, end, len(object), wrong)
	}
	if wrong != nil {
		return
	}
	for i, path := range paths {
		want, found := model(object, path)
		if got, ok := f.text(i); string(got) != want && found || ok != found {
			t.Fatalf("%q has %q at %q: %v, want %q: %v", object, got, path, ok, want, found)
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
	f := newFinder(paths)
	for range 20_000 {
		var b strings.Builder
		value(&b, r, 0)
		object := []byte(b.String())
		sameAsModel(t, f, object)
		object[r.IntN(len(object))] = `{}[]:,"\ 0n`[r.IntN(11)]
		if object[0] > ' ' {
			sameAsModel(t, f, object)
		}
	}
}

// valuesOfJSON are of what encoding/json takes, and of what it does not.
var valuesOfJSON = []string{
	"0", "-0", "1.5", "1e5", "1E+05", "-1.0e-7", "10", "00", "01", "-", "-a", "1.", ".5", "1.e5", "1e", "1e+", "+1", "0x1", "1_0", "NaN", "1 2",
	"true", "tru", "truer", "True", "false", "null", "nul", "nulla", "t", "'a'",
	`""`, `"`, `"a`, `"\""`, `"\\"`, `"\/\b\f\n\r\t"`, `"\a"`, `"\u00e9"`, `"\u00E9"`, `"\u00g0"`, `"\u12"`, `"\u123`, `"\`, `"\ud800"`, `"\u"`,
	"\"\t\"", "\"\x00\"", "\"0123456789\x1f\"", "\"\x7f\"", "\"\xff\"", "\"ü!!!!!!!\"", "\"\x80\x9f\xa2\xdc\x21\x23\x5b\x5d\"", "\"1234567\x1f12345678\"", `"1234567\n12345678"`,
	"\"\\\x1f234567\"", "\" !#[]~\xa0\"", "\"012345\\\"!ABCDEF\"",
	"[]", "[ ]", "[1]", "[1,]", "[,1]", "[1 2]", "[", "[1", "[1,", "[[]]", "[{}]", "{}", "{ }", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,"a":1}`, `{"a" : 1 , "b" : [ ] }`, `{a:1}`,
	`{"a":1 "b":2}`, `{1:1}`, "{", `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, "", " ", "\f1", "\u00a01", "1\x00", "//", "]", "}", ",", ":",
}

// TestValuesOfJSON holds that values are as strict as encoding/json, wherever their text ends, and in as many others as it takes.
func TestValuesOfJSON(t *testing.T) {
	f := newFinder(paths)
	for _, v := range valuesOfJSON {
		for _, object := range []string{`{"a":` + v + `}`, `{"a":` + v, `{"b":[` + v + `],"a":{"b":` + v + `}}`, `{"a":1}` + v, "{\"a\":\t" + v + "\n}\r "} {
			sameAsModel(t, f, []byte(object))
		}
	}
	for _, n := range []int{deepest - 2, deepest - 1, deepest} {
		for _, object := range []string{
			`{"b":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`,
			`{"a":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) + `}`,
		} {
			sameAsModel(t, f, []byte(object))
		}
	}
}

func FuzzFieldsOfJSON(f *testing.F) {
	f.Add([]byte(`{"a":{"b":{"a":1}},"ü":null,"b":"\u0061"}`))
	f.Add([]byte(`{"a":1,"a":[{}],"b":-0.5}`))
	f.Add([]byte("null"))
	for _, v := range valuesOfJSON {
		f.Add([]byte(`{"a":` + v + `}`))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		if len(object) > 0 && object[0] > ' ' {
			finder := newFinder(paths)
			sameAsModel(t, finder, object)
			sameAsModel(t, finder, object)
		}
	})
}

// A field is found where another one stood in the object before, and at a place that is not remembered too.
func TestFieldsThatMove(t *testing.T) {
	f := newFinder([][]string{{"a"}, {"b", "a"}})
	long := strings.Repeat(`"x":0,`, 2*mostSpots)
	for _, test := range []struct{ object, a, b string }{
		{`{"a":1,"b":{"a":2}}`, "1", "2"}, {`{"b":{"a":3},"a":4}`, "4", "3"}, {`{"c":0,"a":5}`, "5", ""}, {`{"b":{"a":6}}`, "", "6"},
		{`{` + long + `"a":7}`, "7", ""}, {`{` + long + `"b":{"a":8}}`, "", "8"}, {`{"` + strings.Repeat("x", 2*longSpot) + `":0,"a":9}`, "9", ""},
		{`{"a":1,"a":null,"b":{"a":2,"a":3}}`, "", "3"}, {"null", "", ""}, {`{"b":{"a":1},"b":2}`, "", ""},
	} {
		for range 2 {
			if err := f.read([]byte(test.object)); err != nil {
				t.Fatal(err)
			}
			a, _ := f.text(0)
			b, _ := f.text(1)
			if string(a) != test.a || string(b) != test.b {
				t.Errorf("%.60s has %q and %q, want %q and %q", test.object, a, b, test.a, test.b)
			}
		}
	}
}
