package rules

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/directives")

// TestSpecimens reads comments and what is said of them. A line of a table is
//
//	# a heading
//	a comment's text, in double quotes as a Go string where a reader would not see what it holds
//		= the canonical directive
//		prose
//		18: an error's column and message
//
// and empty lines. The same tables serve as documentation.
func TestSpecimens(t *testing.T) {
	tables, err := filepath.Glob("../testdata/directives/*.txt")
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, table := range tables {
		t.Run(strings.TrimSuffix(filepath.Base(table), ".txt"), func(t *testing.T) { testTable(t, table) })
	}
}

func testTable(t *testing.T, table string) {
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	var rewritten bytes.Buffer
	for _, s := range readSpecimens(t, string(text)) {
		rewritten.WriteString(s.raw)
		if s.comment == "" {
			continue
		}
		got := judge(s.comment)
		rewritten.WriteString(got)
		if !*update {
			t.Run(s.comment, func(t *testing.T) {
				if got != s.want {
					t.Errorf("Parse(%q) =\n%swant\n%s", s.comment, got, s.want)
				}
			})
		}
	}
	if *update {
		if err := os.WriteFile(table, rewritten.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// A specimen is a line of a table and, where that is a comment, what is said of it.
type specimen struct {
	raw, comment, want string
}

func readSpecimens(t testing.TB, text string) []specimen {
	var all []specimen
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		s := specimen{raw: lines.Text() + "\n"}
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "\t"):
			all[len(all)-1].want += s.raw
			continue
		case strings.HasPrefix(line, `"`):
			comment, err := strconv.Unquote(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			s.comment = comment
		case !strings.HasPrefix(line, "#"):
			s.comment = line
		}
		all = append(all, s)
	}
	return all
}

// judge returns what Match and Parse say of a comment, as a table has it.
func judge(comment string) string {
	exact, near := Match(comment)
	if !exact && near == nil {
		return "\tprose\n"
	}
	d, err := Parse(comment)
	if err == nil {
		return "\t= " + d.String() + "\n"
	}
	var b strings.Builder
	for _, e := range err.(Errors) {
		fmt.Fprintf(&b, "\t%d: %s\n", e.Column, e.Msg)
	}
	return b.String()
}
