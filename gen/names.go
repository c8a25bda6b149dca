package gen

import (
	"go/token"
	"go/types"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// names is the set of identifiers that one scope knows. What an outer scope knows is hidden, not
// known, where hiding it does no harm.
type names map[string]bool

// predeclaredNames returns what no file may declare anew without harm: keywords and the universe.
func predeclaredNames() names {
	n := names{"_": true, "init": true}
	for _, name := range types.Universe.Names() {
		n.add(name)
	}
	for t := token.BREAK; t <= token.VAR; t++ {
		n.add(t.String())
	}
	return n
}

func (n names) add(name string) { n[name] = true }

func (n names) has(name string) bool { return n[name] }

// take adds and returns want, or want2, want3 and so on where the shorter ones are known.
func (n names) take(want string) string {
	name, base := want, want
	if r, _ := utf8.DecodeLastRuneInString(want); unicode.IsDigit(r) {
		base += "_"
	}
	for i := 2; n[name] || token.IsKeyword(name) || name == "_"; i++ {
		name = base + strconv.Itoa(i)
	}
	n[name] = true
	return name
}

// with returns the union of n and others.
func (n names) with(others ...names) names {
	union := make(names, len(n))
	for _, set := range append(others, n) {
		for name := range set {
			union[name] = true
		}
	}
	return union
}

// lowerFirst returns an unexported form of name: "Create" gives "create", "HTTPGet" "httpGet", "ID" "id".
func lowerFirst(name string) string {
	runes := []rune(name)
	upper := 0
	for upper < len(runes) && unicode.IsUpper(runes[upper]) {
		upper++
	}
	if upper > 1 && upper < len(runes) && unicode.IsLower(runes[upper]) {
		upper--
	}
	return strings.ToLower(string(runes[:upper])) + string(runes[upper:])
}

// upperFirst returns name with its first letter in upper case.
func upperFirst(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToUpper(r)) + name[size:]
}
