package rules

import (
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	minWindow = time.Millisecond
	maxWindow = 366 * day
	maxRules  = 16

	day  = 24 * time.Hour
	week = 7 * day
)

// String returns the rule as a directive has it: "10,1s".
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

// parseRule reads "10,1s" or "10/1s". It checks neither count nor window against their bounds: see checkRules.
func parseRule(text string) (Rule, *fault) {
	sep := strings.IndexAny(text, ",/")
	if sep < 0 {
		return Rule{}, misread(text, 0, "has no window")
	}
	if strings.ContainsAny(text[sep+1:], ",/") {
		return Rule{}, misread(text, sep+1, "has a second separator")
	}
	count, why := parseCount(text[:sep])
	if why != "" {
		return Rule{}, misread(text, 0, why)
	}
	window, why := parseWindow(text[sep+1:])
	if why != "" {
		return Rule{}, misread(text, sep+1, why)
	}
	return Rule{Count: count, Window: window}, nil
}

// misread says that text is not a rule, why, and what to write instead if that can be guessed.
func misread(text string, at int, why string) *fault {
	if mend := mendRules(text); mend != "" {
		return faultf(at, "rule %q %s, want count,window; write %q", text, why, mend)
	}
	return faultf(at, "rule %q %s, want count,window, such as 10,1s or 5000,24h", text, why)
}

// parseCount reads a decimal count. Otherwise it says what is wrong.
func parseCount(text string) (count int64, why string) {
	if text == "" {
		return 0, "has no count"
	}
	if digits(text) != len(text) {
		return 0, "has the count " + strconv.Quote(text) + ", which is not made of digits only"
	}
	if text[0] == '0' && len(text) > 1 {
		return 0, "has the count " + strconv.Quote(text) + ", which begins with 0"
	}
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return math.MaxInt64, "" // checkRules says how much is too much
	}
	return count, ""
}

// parseWindow reads a Go duration that may have days and weeks. Otherwise it says what is wrong.
func parseWindow(text string) (window time.Duration, why string) {
	if text == "" {
		return 0, "has no window"
	}
	quoted := strconv.Quote(text)
	for rest := text; rest != ""; {
		number := rest[:digits(rest)]
		rest = rest[len(number):]
		if strings.HasPrefix(rest, ".") {
			fraction := rest[:1+digits(rest[1:])]
			number, rest = number+fraction, rest[len(fraction):]
		}
		unit := rest[:len(rest)-len(strings.TrimLeft(rest, unitBytes))]
		rest = rest[len(unit):]
		if number == "" || number == "." {
			return 0, "has the window " + quoted + ", which lacks a number"
		}
		if unit == "" {
			return 0, "has the window " + quoted + ", which lacks a unit"
		}
		scale := time.Duration(1)
		read := unit
		switch unit {
		case "d":
			scale, read = 24, "h"
		case "w":
			scale, read = 7*24, "h"
		case "ns", "us", "µs", "μs", "ms", "s", "m", "h":
		default:
			return 0, "has the window " + quoted + " with the unknown unit " + strconv.Quote(unit)
		}
		part, err := time.ParseDuration(number + read)
		if err != nil || part > math.MaxInt64/scale || part*scale > math.MaxInt64-window {
			return math.MaxInt64, "" // checkRules says how much is too much
		}
		window += part * scale
	}
	return window, ""
}

// unitBytes may stand in a unit, right or wrong.
const unitBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµμ"

// digits counts the decimal digits that text begins with.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}

// mendRules guesses the rules that text was meant to be, and returns "" if it cannot.
func mendRules(text string) string {
	return ""
}

// checkRules finds what is wrong with the rules of one limit. The fault's at is the index of a rule.
func checkRules(rules []Rule, algo Algorithm) []*fault {
	var faults []*fault
	if len(rules) > maxRules {
		faults = append(faults, faultf(maxRules, "%d rules on one limit, want at most %d; a second line is a second limit", len(rules), maxRules))
		rules = rules[:maxRules]
	}
	sound := make([]bool, len(rules))
	for i, r := range rules {
		why := checkRule(r, algo)
		if sound[i] = why == ""; !sound[i] {
			faults = append(faults, faultf(i, "%s", why))
		}
	}
	for i, r := range rules {
		for j, other := range rules {
			if i == j || !sound[i] || !sound[j] {
				continue
			}
			if r == other {
				if j < i {
					faults = append(faults, faultf(i, "rule %q stands twice, want it once; remove one", r))
					break
				}
				continue
			}
			if other.Count <= r.Count && other.Window >= r.Window {
				faults = append(faults, faultf(i, "rule %q can never bind, because %q admits no more in no less time; remove %[1]q, or give it a smaller count or a longer window", r, other))
				break
			}
		}
	}
	return faults
}

// checkRule says what is wrong with one rule, and "" if nothing is.
func checkRule(r Rule, algo Algorithm) string {
	switch most := algo.maxCount(); {
	case r.Count < 1:
		return "rule " + strconv.Quote(r.String()) + " admits nothing, want a count of 1 or more"
	case r.Count > most:
		return "rule " + strconv.Quote(r.String()) + " has a count over " + strconv.FormatInt(most, 10) + ", the most that " + algo.String() + " keeps"
	case r.Window < minWindow || r.Window > maxWindow:
		return "rule " + strconv.Quote(r.String()) + " has a window out of range, want " + formatWindow(minWindow) + " to " + formatWindow(maxWindow)
	case r.Window%time.Microsecond != 0:
		return "rule " + strconv.Quote(r.String()) + " has a window with a part of a microsecond, want whole microseconds"
	}
	return ""
}
