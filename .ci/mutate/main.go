// Command mutate breaks the limiter one inequality at a time and shows that a test notices.
//
//	go run ./.ci/mutate [-v] [file ...]
//
// Every mutant is a Lua file of the Redis store or a Go file of the in-process store in which one <, <=, > or >= includes
// or leaves out the equal, one 1 is not added or subtracted, or one max, min, floor or ceil is the other. The laws run on it, against
// miniredis for Lua; a mutant that survives them meets the package's other tests. One that survives those too is an
// error, unless equivalent.txt says why nobody can tell it from the original.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed equivalent.txt
var equivalentText string

// mutant is a file with one word replaced.
type mutant struct {
	file string
	text []byte // of the file, mutated
	line int
	code string // the line, trimmed, as it was
	old  string
	new  string
	nth  int // of the same words in equal lines of the file, from 1
}

// name tells the mutant from others, whatever line it stands on.
func (m mutant) name() string {
	name := fmt.Sprintf("%s: %s: %s to %s", filepath.Base(m.file), m.code, m.old, m.new)
	if m.nth > 1 {
		name += fmt.Sprintf(" #%d", m.nth)
	}
	return name
}

// site is a word that a mutant replaces.
type site struct {
	offset   int
	old, new string
}

// swaps are the words that change places, and what becomes of them.
var swaps = map[string]string{
	"<": "<=", "<=": "<", ">": ">=", ">=": ">", "+ 1": "+ 0", "- 1": "- 0",
	"max": "min", "min": "max", "floor": "ceil", "ceil": "floor",
}

// mutants returns those of a file, in the order of its text.
func mutants(file string) ([]mutant, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var sites []site
	if strings.HasSuffix(file, ".lua") {
		sites = luaSites(text)
	} else if sites, err = goSites(file, text); err != nil {
		return nil, err
	}
	seen := map[string]int{}
	var list []mutant
	for _, s := range sites {
		start := bytes.LastIndexByte(text[:s.offset], '\n') + 1
		line, _, _ := bytes.Cut(text[start:], []byte("\n"))
		m := mutant{
			file: file, line: 1 + bytes.Count(text[:s.offset], []byte("\n")), code: strings.TrimSpace(string(line)), old: s.old, new: s.new,
			text: slices.Concat(text[:s.offset], []byte(s.new), text[s.offset+len(s.old):]),
		}
		seen[m.name()]++
		m.nth = seen[m.name()]
		list = append(list, m)
	}
	return list, nil
}

// equivalents returns the reasons by the mutants' names.
func equivalents() map[string]string {
	reasons := map[string]string{}
	name := ""
	for line := range strings.Lines(equivalentText) {
		switch {
		case strings.TrimSpace(line) == "" || line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			reasons[name] = strings.TrimSpace(reasons[name] + " " + strings.TrimSpace(line))
		default:
			name = strings.TrimSpace(line)
			reasons[name] = ""
		}
	}
	return reasons
}

func main() {
	verbose := flag.Bool("v", false, "say of every mutant which test notices it")
	flag.Parse()
	if err := run(flag.Args(), *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// all returns the files that have mutants.
func all() ([]string, error) {
	lua, err := filepath.Glob("ratelimit/redisstore/*.lua")
	if err != nil {
		return nil, err
	}
	steps, err := filepath.Glob("ratelimit/memstore/*.go")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(append(lua, steps...), func(file string) bool {
		return strings.HasSuffix(file, "_test.go")
	}), nil
}

func run(files []string, verbose bool) error {
	whole := len(files) == 0
	if whole {
		var err error
		if files, err = all(); err != nil {
			return err
		}
	}
	bench, err := newBench()
	if err != nil {
		return err
	}
	defer bench.close()
	reasons, used := equivalents(), map[string]bool{}
	var survivors, stale []string
	fmt.Println("| file | mutants | noticed | equivalent | survivors |\n|---|---|---|---|---|")
	for _, file := range files {
		list, err := mutants(file)
		if err != nil {
			return err
		}
		noticed, equivalent, survived := 0, 0, 0
		for _, m := range list {
			_, known := reasons[m.name()]
			used[m.name()] = true
			by, err := bench.try(m)
			if err != nil {
				return err
			}
			if verbose {
				fmt.Fprintf(os.Stderr, "%s:%d: %s to %s: %s\n", m.file, m.line, m.old, m.new, by)
			}
			switch {
			case by != "" && known:
				noticed++
				stale = append(stale, m.name()+" is noticed by "+by)
			case by != "":
				noticed++
			case known:
				equivalent++
			default:
				survived++
				survivors = append(survivors, m.name())
			}
		}
		fmt.Printf("| %s | %d | %d | %d | %d |\n", filepath.Base(file), len(list), noticed, equivalent, survived)
	}
	for name := range reasons {
		if whole && !used[name] {
			stale = append(stale, name+" is no mutant")
		}
	}
	return report(survivors, stale)
}

func report(survivors, stale []string) error {
	slices.Sort(stale)
	for _, name := range stale {
		fmt.Println("\nstale in equivalent.txt:", name)
	}
	for _, name := range survivors {
		fmt.Println("\nsurvives:", name)
	}
	if n := len(survivors) + len(stale); n > 0 {
		return fmt.Errorf("%d mutants survive or are called equivalent and are not, want a test or a reason for each", n)
	}
	return nil
}
