package traffic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonParser reads objects of JSON. The name of a field may lead into objects, user.id for instance; where it does not, the field may have it as it is.
func (l *Log) jsonParser() parser {
	whats := slices.DeleteFunc(slices.Clone(Columns), func(what string) bool { return !l.uses(what) })
	paths := make([][]string, len(whats))
	whole := make([]int, len(whats)) // where the path is of a name with dots as it is
	for i, what := range whats {
		name := column(l.Columns, what)
		if paths[i] = strings.Split(name, "."); len(paths[i]) > 1 {
			whole[i] = len(paths)
			paths = append(paths, []string{name})
		}
	}
	f, clock := newFinder(paths), clock{read: parseTime}
	return func(line []byte, r *record) error {
		if err := f.read(line); err != nil {
			return &noHeader{fmt.Errorf("%s: %w", excerpt(line), err)}
		}
		for i, what := range whats {
			value, ok := f.text(i)
			if !ok && whole[i] > 0 {
				value, ok = f.text(whole[i])
			}
			if !ok && what == "time" {
				return &noHeader{fmt.Errorf("no field %q, want one for the time", column(l.Columns, what))}
			}
			if !ok {
				continue // a line may know nobody
			}
			if err := r.set(what, value, &clock); err != nil {
				return err
			}
		}
		return nil
	}
}

// uses says whether what a column says of a call is of use, or may be wrong.
func (l *Log) uses(what string) bool {
	switch what {
	case "method":
		return l.Match != nil
	case "address", "user", "key":
		return l.Names == nil || slices.Contains(l.Names, what)
	}
	return true
}

// finder finds what stands in objects of JSON at paths.
type finder struct {
	paths  [][]string
	values [][]byte // of the field with which each path begins; nil where the object has none
	visit  func(name, value []byte)
	place  int // of the field that comes next
	spots  []spot
}

// spot is a name at a place of the object before, at which most objects have it.
type spot struct {
	name  []byte // as it stands there, in quotes
	paths []int  // that begin with it
}

const (
	mostSpots = 128 // places
	longSpot  = 128 // bytes of a name
)

func newFinder(paths [][]string) *finder {
	f := &finder{paths: paths, values: make([][]byte, len(paths))}
	f.visit = f.pick
	return f
}

// read reads an object. It says what is wrong with a text that is none, nor null, which is one without fields.
func (f *finder) read(object []byte) error {
	clear(f.values)
	f.place = 0
	if object[0] == '{' {
		if end := endOfObject(object, 0, 0, f.visit); end >= 0 && space(object, end) == len(object) {
			return nil
		}
	}
	clear(f.values)
	var fields map[string]json.RawMessage
	return json.Unmarshal(object, &fields)
}

// pick sets the value of a field for each path that begins with it. Of several fields of one name the last counts.
func (f *finder) pick(name, value []byte) {
	for _, i := range f.which(name) {
		f.values[i] = value
	}
	f.place++
}

// which returns the paths that begin with a name.
func (f *finder) which(name []byte) []int {
	if f.place < len(f.spots) && bytes.Equal(f.spots[f.place].name, name) {
		return f.spots[f.place].paths
	}
	text := unquote(name)
	var paths []int
	for i := range f.paths {
		if f.paths[i][0] == string(text) {
			paths = append(paths, i)
		}
	}
	if f.place < mostSpots && len(name) <= longSpot {
		for len(f.spots) <= f.place {
			f.spots = append(f.spots, spot{})
		}
		s := &f.spots[f.place]
		s.name, s.paths = append(s.name[:0], name...), paths
	}
	return paths
}

// text returns what stands at path i, whatever its type.
func (f *finder) text(i int) (text []byte, ok bool) {
	value := f.values[i]
	for _, name := range f.paths[i][1:] {
		value = inner(value, name)
	}
	switch {
	case value == nil || string(value) == "null":
		return nil, false
	case value[0] != '"':
		return value, true
	}
	return unquote(value), true
}

// inner returns the value of a field of an object, nil if it has none, or is no object.
func inner(object []byte, name string) (value []byte) {
	if len(object) > 0 && object[0] == '{' {
		endOfObject(object, 0, 0, func(own, v []byte) {
			if string(unquote(own)) == name {
				value = v
			}
		})
	}
	return value
}

// unquote returns what a string in quotes says, in its memory if that says it as it is.
func unquote(text []byte) []byte {
	inner := text[1 : len(text)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return inner
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		panic(err) // of a string that is none
	}
	return []byte(s)
}
