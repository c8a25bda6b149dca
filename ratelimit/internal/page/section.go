// Package page holds the tables of a document to what tests find in the code.
package page

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var write = flag.Bool("page", false, "write into documents what the code has, in place of comparing")

const end = "<!-- end -->\n"

// Hold fails the test unless want stands in the document at path, between the comments <!-- mark --> and <!-- end -->, with an empty
// line before and after it. With -page, it is written there.
func Hold(t testing.TB, path, mark, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "<!-- "+mark+" -->\n")
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no section %s, want one between <!-- %s --> and <!-- end -->", path, mark, mark)
	}
	want = "\n" + want + "\n"
	switch {
	case got == want:
	case *write:
		if err := os.WriteFile(path, []byte(before+"<!-- "+mark+" -->\n"+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: section %s is\n%s\nwant\n%s\nwrite it with: go test -run %s -page", path, mark, got, want, t.Name())
	}
}

// Table is a table in Markdown. Cells are single lines; what they have of | is escaped.
func Table(head []string, rows [][]string) string {
	var text strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			text.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
		}
		text.WriteString("|\n")
	}
	line(head)
	text.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, r := range rows {
		line(r)
	}
	return text.String()
}
