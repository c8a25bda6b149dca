package rules

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// seed adds every comment of the tables.
func seed(f *testing.F) {
	tables, _ := filepath.Glob("../testdata/directives/*.txt")
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range readSpecimens(f, string(text)) {
			if s.comment != "" {
				f.Add(s.comment)
			}
		}
	}
}

// FuzzParse: no text panics; errors point into the text and are sorted, and mends resolve them; what is read prints as a line that reads back
// the same, and a limit that is read is valid in a policy.
func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, args string) {
		comment := args
		if !strings.HasPrefix(comment, "/") {
			comment = Namespace + args
		}
		skipLines(t, comment)
		d, err := Parse(comment)
		if err != nil {
			checkErrors(t, comment, err.(Errors))
			if !reflect.DeepEqual(d, Directive{}) {
				t.Errorf("Parse(%q) = %#v with an error, want the zero Directive", comment, d)
			}
			return
		}
		checkReadsBack(t, d)
		for option, column := range d.Columns {
			if column <= len(Namespace) || column > len(comment) {
				t.Errorf("Parse(%q).Columns[%q] = %d, want a column behind %q", comment, option, column, Namespace)
			}
			if _, ok := findOption(option); ok && Column(comment, option, 0) != column {
				t.Errorf("Column(%q, %q, 0) = %d, want %d", comment, option, Column(comment, option, 0), column)
			}
		}
		if d.Counts() {
			p := Policy{Type: "a.B", Method: "C", Limits: []Limit{d.Limit}}
			if err := p.Validate(); err != nil {
				t.Errorf("Parse(%q) is not valid: %v", comment, err)
			}
		}
	})
}

// skipLines skips comments that no Go file can have: one of the form // ends with its line.
func skipLines(t *testing.T, comment string) {
	t.Helper()
	if strings.HasPrefix(comment, "//") && strings.Contains(comment, "\n") {
		t.Skip("a comment of this form ends with its line")
	}
}

func checkErrors(t *testing.T, comment string, errs Errors) {
	t.Helper()
	if len(errs) == 0 {
		t.Errorf("Parse(%q) = no Errors, want some", comment)
	}
	last := 1
	for i, e := range errs {
		if e.Column < last || e.Column > len(comment)+1 || e.Msg == "" || strings.Contains(e.Msg, "\n") {
			t.Errorf("Parse(%q) = %v, want a column of %d to %d and a message", comment, e, last, len(comment)+1)
		}
		last = e.Column
		if i >= 8 { // of which each is read anew
			continue
		}
		if m, ok := Mend(comment, e); ok {
			checkMend(t, comment, e, m)
		}
	}
}

// checkMend checks that a change is one of the comment, resolves the problem, and puts at most a line above it.
func checkMend(t *testing.T, comment string, e *Error, m Edit) {
	t.Helper()
	if m.Start < 0 || m.End < m.Start || m.End > len(comment) {
		t.Fatalf("Mend(%q, %v) = %+v, want a part of the comment", comment, e, m)
	}
	after := problems(m.Apply(comment))
	if len(after) >= len(problems(comment)) { // else the next problem may have moved to its place
		for _, left := range after {
			if left.Column == e.Column && left.Msg == e.Msg {
				t.Errorf("Mend(%q, %v) = %+v, which leaves the problem", comment, e, m)
			}
		}
	}
	if strings.Contains(m.Above, "\n") || m.Above != "" && !strings.HasPrefix(m.Above, "//") {
		t.Errorf("Mend(%q, %v) puts %q above, want a line of comment", comment, e, m.Above)
	}
}

// checkReadsBack checks that d prints as a line that is canonical and that Parse reads as d.
func checkReadsBack(t interface{ Errorf(string, ...any) }, d Directive) {
	again, err := Parse(d.String())
	if err != nil {
		t.Errorf("Parse(%q): %v; want %#v", d, err, d)
		return
	}
	if again.String() != d.String() {
		t.Errorf("Parse(%q) = %q, want the same", d, again)
	}
	d.Columns, again.Columns = nil, nil
	if !reflect.DeepEqual(again, d) {
		t.Errorf("Parse(%q) = %#v, want %#v", d, again, d)
	}
}

// FuzzMatch: no comment panics; none is both exact and nearly so; near misses point into the comment; a comment
// that is exact but for a blank behind the // is near if its name is a directive's.
func FuzzMatch(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, comment string) {
		skipLines(t, comment)
		exact, near := Match(comment)
		if exact && near != nil {
			t.Errorf("Match(%q) = true, %v; want one", comment, near)
		}
		if near != nil {
			checkErrors(t, comment, Errors{near})
		}
		d, err := Parse(comment)
		if err == nil && !exact {
			t.Errorf("Match(%q) = false, want true, as Parse reads it", comment)
		}
		if err != nil || strings.Contains(comment, "\n") { // of the form /* */
			return
		}
		mangled := "// " + strings.TrimPrefix(d.String(), "//")
		if exact, near := Match(mangled); exact || near == nil {
			t.Errorf("Match(%q) = %v, %v; want false and an error", mangled, exact, near)
		} else if !strings.HasSuffix(near.Msg, "; write "+strconv.Quote(d.String())) {
			t.Errorf("Match(%q) = %v, want it to end with %q", mangled, near, d)
		}
	})
}
