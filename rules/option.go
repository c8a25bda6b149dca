package rules

import (
	"errors"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// An option is one name=value of a directive. The table below is the only place that knows them: Parse,
// String and Validate go through it.
type option struct {
	name    string
	suits   []string    // the directives that may have it
	algos   []Algorithm // the algorithms that have it; nil for all
	example string      // a value, for messages
	spaces  bool        // a value may have blanks
	words   []string    // all values, where they are words
	parse   func(*Limit, string) *fault
	print   func(*Limit) string // "" for the default
}

// options in the order in which String writes them.
var options = []option{
	choice("algo", counting, algorithmNames, func(l *Limit) *Algorithm { return &l.Algorithm }),
	number("burst", maxCount, func(l *Limit) *int64 { return &l.Burst }).only(buckets...),
	choice("start", counting, startNames, func(l *Limit) *Start { return &l.Start }).only(FixedWindow),
	choice("refill", counting, refillNames, func(l *Limit) *Refill { return &l.Refill }).only(TokenBucket),
	number("segments", MaxSegments, func(l *Limit) *int64 { return &l.Segments }).only(SlidingWindow).on(append(slices.Clone(counting), "lock")),
	choice("per", flying, perNames, func(l *Limit) *Per { return &l.Per }),
	expression("by", holding(identified), "req.Customer", func(l *Limit) *string { return &l.By }),
	expression("cost", append(slices.Clone(counting), "concurrency"), "len(req.Items)", func(l *Limit) *string { return &l.Cost }),
	choice("free", append(slices.Clone(counting), "concurrency"), freeNames, func(l *Limit) *Free { return &l.Free }),
	expression("when", holding(counting), "req.Kind == Paid", func(l *Limit) *string { return &l.When }),
	word("name", holding(counting), "._-/", func(l *Limit) *string { return &l.Name }),
	word("bucket", holding(counting), "._-", func(l *Limit) *string { return &l.Bucket }),
	word("prefix", holding(counting), "._-", func(l *Limit) *string { return &l.Prefix }),
	choice("missing", holding(identified), missingNames, func(l *Limit) *Missing { return &l.Missing }),
	choice("onfail", holding(counting), onFailNames, func(l *Limit) *OnFail { return &l.OnFail }),
	choice("charge", counting, chargeNames, func(l *Limit) *Charge { return &l.Charge }),
	choice("deny", holding(counting), denyNames, func(l *Limit) *Deny { return &l.Deny }),
	duration("lease", holding(nil), "10s", span{MinLease, MaxLease, time.Millisecond, "milliseconds"}, func(l *Limit) *time.Duration { return &l.Lease }),
	duration("wait", holding(counting), "2s", span{time.Millisecond, MaxWait, time.Microsecond, "microseconds"}, func(l *Limit) *time.Duration { return &l.Wait }),
	duration("ban", counting, "15m", bans, func(l *Limit) *time.Duration { return &l.Ban }),
	number("after", MaxAfter, func(l *Limit) *int64 { return &l.After }),
	duration("prefetch", counting, "100ms", span{time.Millisecond, MaxPrefetch, time.Microsecond, "microseconds"}, func(l *Limit) *time.Duration { return &l.Prefetch }).only(ahead...),
	choice("mode", holding(counting), modeNames, func(l *Limit) *Mode { return &l.Mode }),
	word("plan", counting, "._-", func(l *Limit) *string { return &l.Plan }),
}

var optionNames = namesOf(options, func(o option) string { return o.name })

// Sets of directives that options suit.
var (
	counting   = []string{"ip", "user", "global", "key"}
	identified = []string{"ip", "user", "key"}
	flying     = []string{"concurrency"}
)

// holding returns directives together with those that hold something.
func holding(directives []string) []string {
	return append(slices.Clone(directives), "concurrency", "lock")
}

// suit returns whether the option may stand on a directive.
func (o option) suit(directive string) bool { return slices.Contains(o.suits, directive) }

// pair returns the option with a value, as a directive has it.
func (o option) pair(value string) string { return o.name + "=" + quote(value) }

func findOption(name string) (option, bool) {
	i := slices.Index(optionNames, name)
	if i < 0 {
		return option{}, false
	}
	return options[i], true
}

// choice is an option whose value is one of some words, each standing for its index. The first is the default.
func choice[T ~uint8](name string, suits, words []string, field func(*Limit) *T) option {
	known := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" })
	return option{
		name: name, suits: suits, example: words[len(words)-1], words: known,
		parse: func(l *Limit, text string) *fault {
			i := slices.Index(words, text)
			if i < 0 {
				return faultf(0, "option %s has the unknown value %q, want %s%s", name, text, list(known), didYouMean(text, known))
			}
			*field(l) = T(i)
			return nil
		},
		print: func(l *Limit) string {
			if *field(l) == 0 {
				return ""
			}
			return wordFor(name, words, *field(l))
		},
	}
}

// number is an option whose value is a count, 1 to most. It has none where it is not written.
func number(name string, most int64, field func(*Limit) *int64) option {
	return option{
		name: name, suits: counting, example: "20",
		parse: func(l *Limit, text string) *fault {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 1 || n > most || strconv.FormatInt(n, 10) != text {
				return faultf(0, "option %s has %q, want a number of 1 to %d", name, text, most)
			}
			*field(l) = n
			return nil
		},
		print: func(l *Limit) string {
			if *field(l) == 0 {
				return ""
			}
			return strconv.FormatInt(*field(l), 10)
		},
	}
}

// A span is which durations an option may have: multiples of a part, which has a name.
type span struct {
	least, most, part time.Duration
	parts             string
}

func (s span) has(d time.Duration) bool { return d >= s.least && d <= s.most && d%s.part == 0 }

// String says what is wanted.
func (s span) String() string {
	return fmt.Sprintf("a duration of %s to %s in whole %s", formatWindow(s.least), formatWindow(s.most), s.parts)
}

// read reads one of the durations, written as a window is.
func (s span) read(text string) (time.Duration, bool) {
	d, found, _ := parseWindow(text)
	return d, found == "" && s.has(d)
}

var bans = span{time.Millisecond, MaxBan, time.Microsecond, "microseconds"}

// ParseBan reads how long a ban lasts as the option ban= has it: "15m", "1d".
func ParseBan(text string) (time.Duration, error) {
	d, ok := bans.read(text)
	if !ok {
		return 0, fmt.Errorf("found %q, want %v, such as 15m", text, bans)
	}
	return d, nil
}

// duration is an option whose value is a duration, written as a window is. It has none where it is not written.
func duration(name string, suits []string, example string, s span, field func(*Limit) *time.Duration) option {
	return option{
		name: name, suits: suits, example: example,
		parse: func(l *Limit, text string) *fault {
			d, ok := s.read(text)
			if !ok {
				return faultf(0, "option %s has %q, want %v, such as %s", name, text, s, example)
			}
			*field(l) = d
			return nil
		},
		print: func(l *Limit) string {
			if *field(l) == 0 {
				return ""
			}
			return formatWindow(*field(l))
		},
	}
}

// only returns the option as one of some algorithms.
func (o option) only(algos ...Algorithm) option {
	o.algos = algos
	return o
}

// on returns the option as one of other directives.
func (o option) on(directives []string) option {
	o.suits = directives
	return o
}

// has returns whether the way in which a limit counts has the option.
func (o option) has(l *Limit) bool {
	return o.algos == nil || l.Kind.Holds() || !l.Algorithm.exists() || slices.Contains(o.algos, l.Algorithm)
}

// alien says that the limit's algorithm does not have the option.
func alien(o option, a Algorithm) string {
	names := namesOf(o.algos, Algorithm.String)
	return fmt.Sprintf("found option %s on a limit of algo=%s, want it with algo=%s only", o.name, a, list(names))
}

// maxWord is the most bytes of a name, a bucket or a prefix.
const maxWord = 64

// word is an option whose value stands in keys, headers and metrics: letters, digits and some marks.
func word(name string, suits []string, marks string, field func(*Limit) *string) option {
	return option{
		name: name, suits: suits, example: "orders",
		parse: func(l *Limit, text string) *fault {
			if at := strings.IndexFunc(text, func(r rune) bool { return !inWord(r, marks) }); at >= 0 {
				r, _ := utf8.DecodeRuneInString(text[at:])
				return faultf(at, "option %s has %q in %q, want letters (a-z, A-Z), digits and %s only", name, r, text, marks)
			}
			if len(text) > maxWord {
				return faultf(maxWord, "option %s has %d bytes in %q, want at most %d", name, len(text), text, maxWord)
			}
			*field(l) = text
			return nil
		},
		print: func(l *Limit) string { return *field(l) },
	}
}

func inWord(r rune, marks string) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(marks, r)
}

// maxExpression is the length of the longest expression, in bytes: far more than a person reads, and little enough to be
// checked at once.
const maxExpression = 4096

// expression is an option whose value is a Go expression.
func expression(name string, suits []string, example string, field func(*Limit) *string) option {
	return option{
		name: name, suits: suits, example: example, spaces: true,
		parse: func(l *Limit, text string) *fault {
			if len(text) > maxExpression {
				return faultf(0, "option %s has an expression of %d bytes, want at most %d; call a function of the package in its place",
					name, len(text), maxExpression)
			}
			f := checkExpression(text)
			if f == nil {
				*field(l) = text
				return nil
			}
			how := ", such as " + name + "=" + quote(example)
			if n := len(text); n > 2 && text[0] == text[n-1] && (text[0] == '\'' || text[0] == '"') && checkExpression(text[1:n-1]) == nil {
				how = "; write " + name + "=" + quote(text[1:n-1])
			} else if f.msg == foundComment {
				how = "; write the remark on a line of its own"
			}
			return faultf(f.at, "option %s has %q (%s), want a Go expression%s", name, text, f.msg, how)
		},
		print: func(l *Limit) string { return *field(l) },
	}
}

// checkExpression finds what keeps text from being one Go expression on one line, without a comment.
func checkExpression(text string) *fault {
	const byteOrderMark = '\ufeff' // which go/scanner skips at the beginning
	for at, r := range text {
		if unicode.IsControl(r) && r != '\t' || r == byteOrderMark {
			return faultf(at, "found %q", r)
		}
	}
	if at := findComment(text); at >= 0 {
		return faultf(at, foundComment)
	}
	_, err := parser.ParseExprFrom(token.NewFileSet(), "", text, parser.SkipObjectResolution)
	var list scanner.ErrorList
	switch {
	case err == nil:
		return nil
	case errors.As(err, &list) && len(list) > 0:
		return faultf(min(list[0].Pos.Offset, len(text)), "%s", list[0].Msg)
	}
	return faultf(0, "%s", err)
}

const foundComment = "found a comment"

// findComment returns the offset of the first comment in Go source, -1 if there is none.
func findComment(text string) int {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), func(token.Position, string) {}, scanner.ScanComments)
	for {
		switch pos, tok, _ := s.Scan(); tok {
		case token.COMMENT:
			return file.Offset(pos)
		case token.EOF:
			return -1
		}
	}
}

// checkOptions finds what is wrong with the options of a limit that no directive was parsed for: it prints
// each and parses it again.
func checkOptions(l *Limit, directive string) []string {
	var faults []string
	for _, o := range options {
		value := o.print(l)
		if value == "" {
			continue
		}
		if !o.suit(directive) {
			faults = append(faults, unsuited(o, directive))
		} else if !o.has(l) {
			faults = append(faults, alien(o, l.Algorithm))
		} else if why := o.clash(l, l.has); why != "" {
			faults = append(faults, why)
		} else if f := o.parse(new(Limit), value); f != nil {
			faults = append(faults, f.msg)
		}
	}
	return faults
}

// has reports whether the limit has a value for an option.
func (l *Limit) has(name string) bool {
	o, ok := findOption(name)
	return ok && o.print(l) != ""
}

func unsuited(o option, directive string) string {
	return fmt.Sprintf("found option %s on %s, want it on %s only", o.name, directive, list(o.suits))
}

// lacks says which option a directive lacks.
func lacks(d directive, o option) string {
	return fmt.Sprintf("directive %s has no option %s, want one; write %s", d.name, o.name, o.pair(o.example))
}
