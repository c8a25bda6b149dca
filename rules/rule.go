package rules

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day

	minWindow = time.Millisecond
	maxWindow = 366 * day

	// maxRules is the most rules of one limit.
	maxRules = 16
)

// String returns the rule as a directive has it: "10,1s". [Parse] reads the same Rule back.
func (r Rule) String() string {
	return strconv.FormatInt(r.Count, 10) + "," + formatWindow(r.Window)
}

// formatWindow prints hours below two days and days from there on, without parts that are zero at the
// end: 1m, 24h, 2d12h. Weeks are read and never printed.
func formatWindow(d time.Duration) string {
	if d >= 2*day {
		text := strconv.FormatInt(int64(d/day), 10) + "d"
		if d%day != 0 {
			text += formatWindow(d % day)
		}
		return text
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// The wants of a rule that cannot be read.
const (
	wantRule     = "count,window"
	wantCount    = "digits only"
	wantDuration = "one such as 500ms, 1s or 24h"
	wantUnit     = "ms, s, m, h, d or w"
	wantWindow   = "1ms to 366d"
)

// parseRule reads "10,1s" or "10/1s". Whether count and window make sense together is checkRules' business.
func parseRule(text string) (Rule, *fault) {
	sep := strings.IndexAny(text, ",/")
	if sep < 0 {
		return Rule{}, misread(text, 0, "has no window", wantRule)
	}
	before, behind := text[:sep], text[sep+1:]
	if strings.ContainsAny(behind, ",/") {
		return Rule{}, misread(text, sep+1+strings.IndexAny(behind, ",/"), "has more than two parts", wantRule)
	}
	if before == "" {
		return Rule{}, misread(text, 0, "has no count", wantRule)
	}
	if behind == "" {
		return Rule{}, misread(text, sep, "has no window", wantRule)
	}
	count, found, want := parseCount(before)
	if found != "" {
		if _, odd, _ := parseWindow(before); odd == "" && digits(behind) == len(behind) {
			found, want = "has its parts swapped", wantRule
		}
		return Rule{}, misread(text, 0, found, want)
	}
	window, found, want := parseWindow(behind)
	if found != "" {
		return Rule{}, misread(text, sep+1, found, want)
	}
	return Rule{Count: count, Window: window}, nil
}

// misread is the fault of a text that is not a rule, with what to write instead if that can be guessed.
func misread(text string, at int, found, want string) *fault {
	mend, sure := mendRules(text)
	if mend == "" {
		how := ", such as 10,1s or 5000,24h"
		if strings.Contains(want, " to ") || want == wantDuration {
			how = ""
		}
		return faultf(at, "rule %q %s, want %s%s", text, found, want, how)
	}
	f := faultf(at, "rule %q %s, want %s; write %q", text, found, want, mend)
	if sure {
		f.better = mend
	}
	return f
}

// parseCount reads a decimal count, which is not empty, or says what it found instead and what is wanted.
func parseCount(text string) (count int64, found, want string) {
	if digits(text) != len(text) || text[0] == '0' && len(text) > 1 {
		if digits(text) == len(text) {
			return 0, "has a count that begins with 0", "no 0 in front"
		}
		return 0, "has the count " + strconv.Quote(text), wantCount
	}
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, "has a count out of range", "1 to " + strconv.FormatInt(mostCount(), 10)
	}
	return count, "", ""
}

// parseWindow reads a Go duration that may have days and weeks, or says what it found instead and what is
// wanted.
func parseWindow(text string) (window time.Duration, found, want string) {
	for rest := text; rest != ""; {
		number := rest[:digits(rest)]
		rest = rest[len(number):]
		if strings.HasPrefix(rest, ".") {
			fraction := rest[:1+digits(rest[1:])]
			number, rest = number+fraction, rest[len(fraction):]
		}
		unit := rest[:letters(rest)]
		rest = rest[len(unit):]
		switch {
		case unit == "" && rest != "":
			return 0, "has the window " + strconv.Quote(text), wantDuration
		case strings.Trim(number, ".") == "":
			return 0, "has a window without a number", wantDuration
		case unit == "":
			return 0, "has a window without a unit", wantUnit
		}
		part, known := parseDuration(number, unit)
		switch {
		case !known:
			return 0, "has the unknown unit " + strconv.Quote(unit), wantUnit
		case part > math.MaxInt64-window:
			return 0, "has a window out of range", wantWindow
		}
		window += part
	}
	return window, "", ""
}

// parseDuration reads a number of units; what is too long for a Duration is math.MaxInt64.
func parseDuration(number, unit string) (d time.Duration, known bool) {
	scale := time.Duration(1)
	switch unit {
	case "ns", "us", "µs", "μs", "ms", "s", "m", "h":
	case "d":
		scale, unit = day/time.Hour, "h"
	case "w":
		scale, unit = week/time.Hour, "h"
	default:
		return 0, false
	}
	d, err := time.ParseDuration(number + unit)
	if err != nil || d > math.MaxInt64/scale {
		return math.MaxInt64, true
	}
	return d * scale, true
}

// digits counts the decimal digits that text begins with.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}

// unitLetters may stand in a unit, right or wrong.
const unitLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµμ"

// letters counts the bytes of the unitLetters that text begins with.
func letters(text string) int {
	return len(text) - len(strings.TrimLeft(text, unitLetters))
}

// mendRules guesses which rules text was meant to be: "10,1s 100,1m". It returns "" if it cannot, and is sure if all of them
// say in which unit their window is, one that windows have.
func mendRules(text string) (rules string, sure bool) {
	sure = true
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",/;:|@，\"'`", r) })
	var mended []string
	for ; len(parts) >= 2; parts = parts[2:] {
		rule, certain := mendRule(parts[0], parts[1])
		if rule == "" {
			rule, certain = mendRule(parts[1], parts[0])
		}
		if rule == "" {
			return "", false
		}
		mended = append(mended, rule)
		sure = sure && certain
	}
	if len(parts) > 0 {
		return "", false
	}
	return strings.Join(mended, " "), sure
}

func mendRule(count, window string) (rule string, sure bool) {
	count = strings.TrimLeft(strings.ReplaceAll(strings.TrimPrefix(count, "+"), "_", ""), "0")
	if sure = digits(window) < len(window); !sure {
		window += "s"
	}
	number := strings.TrimRight(window, unitLetters)
	if days, ok := unitDays[strings.ToLower(window[len(number):])]; ok {
		if n, err := strconv.Atoi(cmp.Or(number, "1")); err == nil && n > 0 && n <= 366/days {
			return count + "," + strconv.Itoa(n*days) + "d", false
		}
		return "", false
	}
	if unit, ok := unitSlips[strings.ToLower(window[len(number):])]; ok {
		window = number + unit
	}
	if number == "" {
		window = "1" + window
	}
	if count == "" {
		return "", false
	}
	_, odd, _ := parseCount(count)
	if w, found, _ := parseWindow(window); odd != "" || found != "" || w <= 0 {
		return "", false
	}
	return count + "," + window, sure
}

// unitSlips has what people write for a unit.
var unitSlips = map[string]string{
	"msec": "ms", "msecs": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"sec": "s", "secs": "s", "second": "s", "seconds": "s", "s": "s",
	"min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"hr": "h", "hrs": "h", "hour": "h", "hours": "h", "h": "h",
	"day": "d", "days": "d", "d": "d",
	"wk": "w", "wks": "w", "week": "w", "weeks": "w", "w": "w",
}

// unitDays has the units that windows do not have, since they are not always as long, and how many days they are about.
var unitDays = map[string]int{
	"mo": 30, "mon": 30, "month": 30, "months": 30,
	"y": 365, "yr": 365, "year": 365, "years": 365,
}

// checkRules finds what is wrong with the rules of one limit, which are written as texts. The at of a
// fault is the index of a rule.
func checkRules(l *Limit, texts []string) []*fault {
	var faults []*fault
	rules := l.Rules
	if len(rules) > maxRules {
		faults = append(faults, faultf(maxRules, "found %d rules on one limit, want at most %d; put the others on a line of their own", len(rules), maxRules))
		rules = rules[:maxRules]
	}
	sound := make([]bool, len(rules))
	for i, r := range rules {
		why := l.checkRule(r)
		if sound[i] = why == ""; !sound[i] {
			faults = append(faults, faultf(i, "rule %q %s", texts[i], why))
		}
	}
	for i := range rules {
		if !sound[i] {
			continue
		}
		if f := l.checkReach(texts, sound, i); f != nil {
			faults = append(faults, f)
		}
	}
	return faults
}

// checkRule says what is wrong with a rule by itself, and "" if nothing is.
func (l *Limit) checkRule(r Rule) string {
	most := l.known().maxCount
	switch {
	case r.Count < 1:
		return "admits nothing, want a count of 1 to " + strconv.FormatInt(most, 10)
	case r.Count > most:
		return "has a count that is too large for " + l.Algorithm.String() + ", want 1 to " + strconv.FormatInt(most, 10) + largerCounts(r.Count)
	case r.Window < minWindow || r.Window > maxWindow:
		return "has a window out of range, want " + wantWindow
	case r.Window%time.Microsecond != 0:
		return "has a part of a microsecond in its window, want whole microseconds"
	}
	return l.checkProduct(r)
}

// checkReach finds out whether rule i can ever deny a call that another rule allows. Of two that never differ, the
// second is reported.
func (l *Limit) checkReach(texts []string, sound []bool, i int) *fault {
	r, covers := l.Rules[i], l.known().covers
	for j, other := range l.Rules[:len(sound)] {
		switch {
		case i == j || !sound[j]:
		case r == other:
			if j < i {
				f := faultf(i, "rule %q stands there already as %q, want it once; remove one", texts[i], texts[j])
				f.extra = true
				return f
			}
		default:
			why := covers(l, r, other)
			if why != "" && (j < i || covers(l, other, r) == "") {
				return faultf(i, "rule %q never binds beside %q, %s; remove one", texts[i], texts[j], why)
			}
		}
	}
	return nil
}
