package gen_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reporters are the functions that make a message, by the index of its format among their arguments.
var reporters = map[string]int{
	"errorf": 1, "warnf": 1, "refuse": 2, // of package gen
	"failf": 1, "faultf": 1, "addf": 1, // of package rules
}

// unseen are the messages for what should never happen, so that it is said at a place, and not by a panic.
var unseen = map[string]bool{
	"%s has a type that could not be found out, want a package that compiles; run go vet": true,
	"what is generated here does not fit the package: %s":                                 true,
	"%s=%s: %s, want a Go expression":                                                     true, // package rules says it first
}

// TestMessages holds that every message has a specimen: some line of testdata or of a test's table has what its format
// says. Formats that are nothing but what others say have none, and neither have those of package rules that only
// [rules.Policy.Validate] makes.
func TestMessages(t *testing.T) {
	specimens := specimens(t)
	for _, dir := range []string{"../gen", "../rules"} {
		for pos, format := range formats(t, dir) {
			pattern, ok := formatPattern(format)
			if ok && !unseen[format] && !pattern.Match(specimens) {
				t.Errorf("%s: no specimen in testdata has the message %q", pos, format)
			}
		}
	}
}

// specimens returns all texts that hold messages.
func specimens(t *testing.T) []byte {
	t.Helper()
	var all bytes.Buffer
	see := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	err := filepath.WalkDir("../testdata", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(path, "torture") {
			see(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*_test.go", "../rules/*_test.go"} {
		tests, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range tests {
			see(path)
		}
	}
	return all.Bytes()
}

// formats returns the formats of a package's messages by their places.
func formats(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	found := map[string]string{}
	fset := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if format, ok := formatOf(call); ok {
					found[fset.Position(call.Pos()).String()] = format
				}
			}
			return true
		})
	}
	return found
}

// formatOf returns the format of a call that reports.
func formatOf(call *ast.CallExpr) (string, bool) {
	name := ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	i, ok := reporters[name]
	if !ok || len(call.Args) <= i {
		return "", false
	}
	lit, ok := call.Args[i].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	format, err := strconv.Unquote(lit.Value)
	return format, err == nil
}

var verb = regexp.MustCompile(`%(\[\d\])?[a-zA-Z]`)

// formatPattern returns what matches the texts that a format makes, not ok if it has no words of its own.
func formatPattern(format string) (*regexp.Regexp, bool) {
	var pattern strings.Builder
	words := 0
	for i, part := range verb.Split(format, -1) {
		if i > 0 {
			pattern.WriteString(`.*`)
		}
		pattern.WriteString(regexp.QuoteMeta(part))
		words += len(strings.Fields(part))
	}
	return regexp.MustCompile(pattern.String()), words > 1
}
