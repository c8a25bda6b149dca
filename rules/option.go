package rules

import (
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strings"
)

// An option is one name=value of a directive. The table below is the only place that knows them: parsing,
// printing and validating go through it.
type option struct {
	name  string
	suits []string                    // the directives that may have it
	value string                      // an example, for messages
	parse func(*Limit, string) *fault // reads a value into the limit
	print func(*Limit) string         // the value to write, "" for the default
}

// options in the order in which they are printed.
var options = []option{
	choice("algo", counting, algorithmNames, func(l *Limit) *Algorithm { return &l.Algorithm }),
	expression("by", identified, "req.CustomerID", func(l *Limit) *string { return &l.By }),
	expression("cost", counting, "len(req.Items)", func(l *Limit) *string { return &l.Cost }),
	expression("when", counting, `"req.Kind == Paid"`, func(l *Limit) *string { return &l.When }),
	word("name", counting, "/", func(l *Limit) *string { return &l.Name }),
	word("bucket", counting, "", func(l *Limit) *string { return &l.Bucket }),
	word("prefix", counting, "", func(l *Limit) *string { return &l.Prefix }),
	choice("missing", identified, missingNames, func(l *Limit) *Missing { return &l.Missing }),
	choice("onfail", counting, onFailNames, func(l *Limit) *OnFail { return &l.OnFail }),
}

var (
	identified = []string{"ip", "user", "key"}
	counting   = []string{"ip", "user", "global", "key"}
)

var optionNames = func() []string {
	var names []string
	for _, o := range options {
		names = append(names, o.name)
	}
	return names
}()

func findOption(name string) (option, bool) {
	i := slices.IndexFunc(options, func(o option) bool { return o.name == name })
	if i < 0 {
		return option{}, false
	}
	return options[i], true
}

// choice is an option whose value is one of some words; the first is the default.
func choice[T ~uint8](name string, suits, words []string, field func(*Limit) *T) option {
	return option{
		name: name, suits: suits, value: words[0],
		parse: func(l *Limit, text string) *fault {
			i := slices.Index(words, text)
			if i < 0 {
				return faultf(0, "unknown value %q of %s, want %s%s", text, name, list(words), didYouMean(text, words))
			}
			*field(l) = T(i)
			return nil
		},
		print: func(l *Limit) string {
			v := *field(l)
			if v == 0 {
				return ""
			}
			return nameOf(name, words, v)
		},
	}
}

// maxWord is the most bytes of a name, a bucket or a prefix.
const maxWord = 64

// word is an option whose value is a word that stands in keys, headers and metrics.
func word(name string, suits []string, extra string, field func(*Limit) *string) option {
	return option{
		name: name, suits: suits, value: "orders",
		parse: func(l *Limit, text string) *fault {
			bad := strings.IndexFunc(text, func(r rune) bool {
				return !(r < 0x80 && (safe(byte(r)) && r != '@' || strings.ContainsRune(extra, r)))
			})
			also := ""
			if extra != "" {
				also = " and " + extra
			}
			if bad >= 0 {
				return faultf(bad, "%s %q is not a word, want letters a to z and A to Z, digits, '.', '_' and '-'%s", name, text, also)
			}
			if len(text) > maxWord {
				return faultf(maxWord, "%s %q has %d bytes, want at most %d", name, text, len(text), maxWord)
			}
			*field(l) = text
			return nil
		},
		print: func(l *Limit) string { return *field(l) },
	}
}

// expression is an option whose value is a Go expression.
func expression(name string, suits []string, example string, field func(*Limit) *string) option {
	return option{
		name: name, suits: suits, value: example,
		parse: func(l *Limit, text string) *fault {
			if f := checkExpression(text); f != nil {
				return faultf(f.at, "%s %q is not a Go expression: %s", name, text, f.msg)
			}
			*field(l) = text
			return nil
		},
		print: func(l *Limit) string { return *field(l) },
	}
}

// checkExpression finds the first syntax error of a Go expression.
func checkExpression(text string) *fault {
	set := token.NewFileSet()
	_, err := parser.ParseExprFrom(set, "", text, 0)
	if errs, ok := err.(scanner.ErrorList); ok && len(errs) > 0 {
		return &fault{min(errs[0].Pos.Offset, len(text)), errs[0].Msg}
	}
	if err != nil {
		return &fault{0, err.Error()}
	}
	return nil
}
