package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
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
	measures := map[string]measurement{}
	for _, r := range rows {
		for _, name := range []string{r.ours, r.theirs} {
			if name == "" || measures[name] != nil {
				continue
			}
			prepare, ok := contestants[name]
			if !ok {
				return nil, fmt.Errorf("row %q names %q, which is none of the contestants", r.name, name)
			}
			m, err := prepare(l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			measures[name] = m
		}
	}
	results := results{}
	names := make([]string, 0, len(measures))
	for name := range measures {
		names = append(names, name)
	}
	slices.Sort(names)
	for range rounds {
		for _, i := range rand.Perm(len(names)) {
			l.clean()
			s, err := measures[names[i]](span)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", names[i], err)
			}
			results[names[i]] = append(results[names[i]], s)
		}
	}
	return results, nil
}
