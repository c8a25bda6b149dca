package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// printMarkdown prints a heading and a table for each package, a row for each limit.
func (c *command) printMarkdown(methods []methodJSON, overrides bool) {
	fmt.Fprint(c.stdout, "# Rate limits\n")
	pkg := ""
	for _, m := range methods {
		if m.Package != pkg {
			pkg = m.Package
			fmt.Fprintf(c.stdout, "\n## %s\n\n", pkg)
			more, line := "", ""
			if overrides {
				more, line = " override |", "---|"
			}
			fmt.Fprintf(c.stdout, "| method | limit | key | algorithm | memory | without identity | without Redis |%s\n", more)
			fmt.Fprintf(c.stdout, "|---|---|---|---|---|---|---|%s\n", line)
		}
		for _, l := range m.Limits {
			cells := []string{
				fmt.Sprintf("[%s.%s](%s#L%d)%s", m.Type, m.Method, m.File, m.Line, m.denial()),
				code(strings.TrimPrefix(l.Directive, rules.Namespace)),
				code(l.Key),
				l.way(),
				l.size(),
				missingText[l.Missing],
				l.withoutRedis(),
			}
			if overrides {
				cells = append(cells, l.overrideCell())
			}
			fmt.Fprintf(c.stdout, "| %s |\n", strings.Join(cells, " | "))
		}
	}
}

// overrideCell is what overrides make of the limit; empty if nothing.
func (l limitJSON) overrideCell() string {
	if l.Override == nil {
		return ""
	}
	return code(l.Override.text())
}

// way is the limit's algorithm, or what it is where it holds something.
func (l limitJSON) way() string { return cmp.Or(l.Algorithm, l.Kind) }

// code returns a text as code in a cell of a table, where a bar must be escaped and back quotes need longer ones around
// them.
func code(text string) string {
	text = strings.ReplaceAll(text, "|", `\|`)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		text = " " + text + " "
	}
	return fence + text + fence
}
