package ratelimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// logMethods write lines.
var logMethods = map[string]bool{
	"Info": true, "Warn": true, "Error": true, "InfoContext": true, "WarnContext": true, "ErrorContext": true,
	"Log": true, "LogAttrs": true, "write": true,
}

// TestOperationsLogLines holds that OPERATIONS.md has each line that this package logs, word by word.
func TestOperationsLogLines(t *testing.T) {
	page := operations(t)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, line := range logged(n) {
				lines++
				if !strings.Contains(page, line) {
					t.Errorf("%s logs %q, which OPERATIONS.md does not have", name, line)
				}
			}
			return true
		})
	}
	if lines < 6 {
		t.Errorf("%d lines are logged, want all found", lines)
	}
}

// logged are the texts of several words in a call that logs.
func logged(n ast.Node) (texts []string) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	if method, ok := call.Fun.(*ast.SelectorExpr); !ok || !logMethods[method.Sel.Name] {
		return nil
	}
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(strings.TrimSpace(text), " ") {
					texts = append(texts, text)
				}
			}
			return true
		})
	}
	return texts
}

// TestOperationsMetrics holds that OPERATIONS.md has each instrument of otellimit, and no other.
func TestOperationsMetrics(t *testing.T) {
	source, err := os.ReadFile("otellimit/instrument.go")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, found := range regexp.MustCompile(`"(rate_limiting\.[a-z_.]+)"`).FindAllStringSubmatch(string(source), -1) {
		names[found[1]] = true
		if !strings.Contains(operations(t), "`"+found[1]+"`") {
			t.Errorf("otellimit measures %s, which OPERATIONS.md does not have", found[1])
		}
	}
	if len(names) < 7 {
		t.Errorf("otellimit measures %v, want all found", names)
	}
	for _, found := range regexp.MustCompile("(?m)^\\| `(rate_limiting\\.[a-z_.]+)`").FindAllStringSubmatch(operations(t), -1) {
		if !names[found[1]] {
			t.Errorf("OPERATIONS.md has %s, which otellimit does not measure", found[1])
		}
	}
}

func operations(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
