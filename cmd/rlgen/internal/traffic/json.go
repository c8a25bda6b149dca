package traffic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
)

// jsonParser reads objects of JSON. The name of a field may lead into objects, user.id for instance; where it does not, the field may have it as it is.
func jsonParser(names map[string]string) parser {
	paths := make([][]string, len(Columns))
	whole := make([]int, len(Columns)) // where the path is of a name with dots as it is
	for i, what := range Columns {
		name := column(names, what)
		if paths[i] = strings.Split(name, "."); len(paths[i]) > 1 {
			whole[i] = len(paths)
			paths = append(paths, []string{name})
		}
	}
	values := make([][]byte, len(paths))
	return func(line []byte, r *record) error {
		if err := checkObject(line); err != nil {
			return &noHeader{fmt.Errorf("%s: %w", excerpt(line), err)}
		}
		pick(line, paths, values)
		for i, what := range Columns {
			value, ok, err := field(values[i], paths[i][1:])
			if !ok && whole[i] > 0 {
				value, ok, err = field(values[whole[i]], nil)
			}
			if err != nil {
				return err
			}
			if !ok && what == "time" {
				return &noHeader{fmt.Errorf("no field %q, want one for the time", column(names, what))}
			}
			if !ok {
				continue // a line may know nobody
			}
			if err := r.set(what, value); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkObject says what is wrong with a text that is no object of JSON, nor null, which is one without fields.
func checkObject(text []byte) error {
	if text[0] == '{' && json.Valid(text) {
		return nil
	}
	var object map[string]json.RawMessage
	return json.Unmarshal(text, &object)
}

// pick sets for each path the value of the field of an object with which it begins, nil if there is none. Of several fields of one name the last counts.
func pick(object []byte, paths [][]string, values [][]byte) {
	clear(values)
	for name, value := range members(object) {
		for i := range paths {
			if paths[i][0] == string(name) {
				values[i] = value
			}
		}
	}
}

// field returns the text of a value, or of the field to which a path leads from it, whatever its type.
func field(value []byte, path []string) (text []byte, ok bool, err error) {
	for _, name := range path {
		inner := value
		value = nil
		for own, v := range members(inner) {
			if string(own) == name {
				value = v
			}
		}
	}
	if value == nil || bytes.Equal(value, []byte("null")) {
		return nil, false, nil
	}
	if value[0] != '"' {
		return value, true, nil
	}
	text, err = unquote(value)
	return text, true, err
}

// members are the names and values of an object of JSON that is valid, both in its memory where that has them as they are; none of what is no object.
func members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		if len(object) == 0 || object[0] != '{' {
			return
		}
		for rest := space(object[1:]); rest[0] == '"'; {
			end := ends(rest)
			name, err := unquote(rest[:end])
			rest = space(rest[end:])[1:] // behind the colon
			rest = space(rest)
			end = ends(rest)
			if err == nil && !yield(name, rest[:end]) {
				return
			}
			if rest = space(rest[end:]); rest[0] == ',' {
				rest = space(rest[1:])
			}
		}
	}
}

// space returns what is behind the white space at the beginning of a text.
func space(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t' || text[0] == '\n' || text[0] == '\r') {
		text = text[1:]
	}
	return text
}

// ends is how long the value is with which a text of valid JSON begins.
func ends(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i += quoted(text[i:]) - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i // of what the number or word is in
			} else if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
}

// quoted is how long the string is with which a text begins, with its quotes.
func quoted(text []byte) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// unquote returns what a string in quotes says, in its memory if that says it as it is.
func unquote(text []byte) ([]byte, error) {
	inner := text[1 : len(text)-1]
	for _, c := range inner {
		if c == '\\' || c >= 0x80 {
			var s string
			err := json.Unmarshal(text, &s)
			return []byte(s), err
		}
	}
	return inner, nil
}
