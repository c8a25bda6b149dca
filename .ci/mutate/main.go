// Command mutate breaks the limiter one inequality at a time and shows that a test notices.
//
//	go run ./.ci/mutate [-v] [-a] [file ...]
//
// Every mutant is a Lua file of the Redis store or a Go file of the in-process store in which one <, <=, > or >= includes
// or leaves out the equal, one 1 is not added or subtracted, or one max, min, floor or ceil is the other. The laws run on it, against
// miniredis for Lua; a mutant that survives them meets the package's other tests. One that survives those too is an
// error, unless equivalent.txt says why nobody can tell it from the original.
//
// Two mutants are tried at once. What is found is kept in the user's cache for the text of the mutated file and of the tests.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

//go:embed equivalent.txt
var equivalentText string

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
	anew := flag.Bool("a", false, "try all anew, whatever earlier runs have found")
	flag.Parse()
	if err := run(flag.Args(), *verbose, *anew); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(files []string, verbose, anew bool) error {
	whole := len(files) == 0
	if whole {
		var err error
		if files, err = all(); err != nil {
			return err
		}
	}
	var list []mutant
	for _, file := range files {
		mutants, err := mutants(file)
		if err != nil {
			return err
		}
		list = append(list, mutants...)
	}
	by, err := tryAll(list, verbose, anew)
	if err != nil {
		return err
	}
	return report(list, by, whole)
}

// atOnce is how many mutants are tried at once: some hang, and the tests of most wait for more than they compute.
const atOnce = 2

// tryAll returns by what each mutant is noticed, "" if by nothing, and says on the way how far it is.
func tryAll(list []mutant, verbose, anew bool) ([]string, error) {
	results, err := openResults(anew)
	if err != nil {
		return nil, err
	}
	bench, err := newBench(results)
	if err != nil {
		return nil, err
	}
	defer bench.close()
	by, failed := make([]string, len(list)), make([]error, len(list))
	var mu sync.Mutex
	next, done := 0, 0
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(list) {
				i := next
				next++
				mu.Unlock()
				by[i], failed[i] = bench.try(list[i])
				mu.Lock()
				if done++; failed[i] != nil {
					next = len(list)
				}
				progress(list[i], by[i], done, len(list), verbose)
			}
		})
	}
	workers.Wait()
	return by, firstOf(failed)
}

// progress says on standard error how far the run is: on one line, or with verbose on one for each mutant.
func progress(m mutant, by string, done, of int, verbose bool) {
	if verbose {
		fmt.Fprintf(os.Stderr, "%d/%d %s:%d: %s to %s: %s\n", done, of, m.file, m.line, m.old, m.new, by)
		return
	}
	fmt.Fprintf(os.Stderr, "\r%d/%d %-24s", done, of, filepath.Base(m.file))
	if done == of {
		fmt.Fprintln(os.Stderr)
	}
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// row counts the mutants of a file.
type row struct {
	file                                   string
	mutants, noticed, equivalent, survived int
}

// report prints the table, and fails if a mutant survives or equivalent.txt is wrong.
func report(list []mutant, by []string, whole bool) error {
	reasons, used := equivalents(), map[string]bool{}
	var rows []row
	var wrong []string
	for i, m := range list {
		if len(rows) == 0 || rows[len(rows)-1].file != m.file {
			rows = append(rows, row{file: m.file})
		}
		r := &rows[len(rows)-1]
		r.mutants++
		_, known := reasons[m.name()]
		used[m.name()] = true
		switch {
		case by[i] != "":
			r.noticed++
			if known {
				wrong = append(wrong, "stale in equivalent.txt: "+m.name()+" is noticed by "+by[i])
			}
		case known:
			r.equivalent++
		default:
			r.survived++
			wrong = append(wrong, fmt.Sprintf("survives: %s (line %d)", m.name(), m.line))
		}
	}
	for name, reason := range reasons {
		if whole && !used[name] {
			wrong = append(wrong, "stale in equivalent.txt: "+name+" is no mutant")
		}
		if reason == "" {
			wrong = append(wrong, "stale in equivalent.txt: "+name+" has no reason")
		}
	}
	printTable(rows)
	slices.Sort(wrong)
	for _, line := range wrong {
		fmt.Println("\n" + line)
	}
	if n := len(wrong); n > 0 {
		return fmt.Errorf("%d mutants survive or are called equivalent and are not, want a test or a reason for each", n)
	}
	return nil
}

func printTable(rows []row) {
	fmt.Println("| file | mutants | noticed | equivalent | survivors |\n|---|---|---|---|---|")
	sum := row{file: "all"}
	for _, r := range rows {
		sum.mutants += r.mutants
		sum.noticed += r.noticed
		sum.equivalent += r.equivalent
		sum.survived += r.survived
	}
	for _, r := range append(rows, sum) {
		fmt.Printf("| %s | %d | %d | %d | %d |\n", filepath.Base(r.file), r.mutants, r.noticed, r.equivalent, r.survived)
	}
}
