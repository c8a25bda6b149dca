package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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

func (m mutant) lua() bool { return isLua(m.file) }

func isLua(file string) bool { return strings.HasSuffix(file, ".lua") }

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
	if isLua(file) {
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

// all returns the files that have mutants.
func all() ([]string, error) {
	lua, err := filepath.Glob(redisstore + "/*.lua")
	if err != nil {
		return nil, err
	}
	steps, err := filepath.Glob(memstore + "/*.go")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(append(lua, steps...), func(file string) bool {
		return strings.HasSuffix(file, "_test.go")
	}), nil
}
