package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 5, "how often everything is measured")
	span := flag.Duration("time", 500*time.Millisecond, "how long each is measured in a round")
	pattern := flag.String("rows", "", "measure only the rows that this regular expression matches")
	raw := flag.Bool("raw", false, "print what was measured of each, too")
	scales := flag.Bool("scale", false, "print instead what calls cost by the number of processes, ids, rules and so on; -rows are then the tables' names")
	jobText := flag.String("worker", "", "what a process of a fleet does, which the program starts by itself")
	flag.Parse()
	if *jobText != "" {
		return work(*jobText)
	}
	match, err := regexp.Compile(*pattern)
	if err != nil || *rounds < 1 || flag.NArg() > 0 {
		return fmt.Errorf("%w: want -rounds of 1 or more, a regular expression and no arguments", errors.Join(err, errUsage))
	}
	l := newLab()
	defer l.close()
	if *scales {
		return scale(os.Stdout, l, match.MatchString, *rounds, *span)
	}
	rows := slices.DeleteFunc(slices.Clone(table), func(r row) bool { return !match.MatchString(r.name) })
	results, err := measure(l, rows, *rounds, *span)
	if err != nil {
		return err
	}
	if *raw {
		results.print(os.Stdout)
	}
	print(os.Stdout, rows, results)
	return nil
}

var errUsage = errors.New("usage")

// measure measures all that rows compare, in rounds.
func measure(l *lab, rows []row, rounds int, span time.Duration) (results, error) {
	names, err := contestantsOf(rows)
	if err != nil {
		return nil, err
	}
	events, err := eventsOf(l, names)
	if err != nil {
		return nil, err
	}
	results := results{}
	for range rounds {
		for _, i := range rand.Perm(len(events)) {
			l.clean()
			samples, err := events[i].measure(span)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", strings.Join(events[i].names, ", "), err)
			}
			for j, name := range events[i].names {
				results[name] = append(results[name], samples[j])
			}
		}
	}
	return results, nil
}

// contestantsOf are the names of those that rows compare, in order.
func contestantsOf(rows []row) (names []string, err error) {
	for _, r := range rows {
		for _, name := range []string{r.ours, r.theirs} {
			if _, ok := contestants[name]; !ok && name != "" {
				return nil, fmt.Errorf("row %q names %q, which is none of the contestants", r.name, name)
			}
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// event is what is measured at once: one contestant, or all those of a heat.
type event struct {
	names   []string
	measure func(span time.Duration) ([]sample, error) // a sample for each name
}

// eventsOf makes the named contestants ready.
func eventsOf(l *lab, names []string) (events []event, err error) {
	heats := map[heat][]string{}
	for _, name := range names {
		c := contestants[name]
		if c.prepare == nil {
			heats[c.heat] = append(heats[c.heat], name)
			continue
		}
		m, err := c.prepare(l)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		events = append(events, event{[]string{name}, func(span time.Duration) ([]sample, error) {
			s, err := m(span)
			return []sample{s}, err
		}})
	}
	for heat, names := range heats {
		calls := make([]call, len(names))
		for i, name := range names {
			if calls[i], err = contestants[name].open(l); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		events = append(events, event{names, func(span time.Duration) ([]sample, error) { return heat.run(calls, span) }})
	}
	return events, nil
}
