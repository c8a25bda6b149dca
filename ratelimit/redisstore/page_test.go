package redisstore_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/internal/page"
)

const operations = "../OPERATIONS.md"

// TestOperationsFaults holds the page's table of faults to the matrix that [TestFaults] produces.
func TestOperationsFaults(t *testing.T) {
	var rows [][]string
	for _, r := range faultMatrix {
		if r.not != "" {
			continue
		}
		shown := strings.Join(strings.Fields(r.test), ", ")
		if r.produce != nil {
			shown = "TestFaults"
		}
		rows = append(rows, []string{r.fault, r.invariant, shown})
	}
	page.Hold(t, operations, "faults", page.Table([]string{"fault", "what holds", "shown by"}, rows))
}

// TestOperationsPermissions holds the page to the permissions that the other tests use.
func TestOperationsPermissions(t *testing.T) {
	page.Hold(t, operations, "permissions", "```text\nACL SETUSER limiter "+acl+"\n```\n\nand on a Cluster `"+strings.TrimSpace(clusterACL)+"` as well.\n")
}

// TestOperationsFindings holds the page's table of findings to those in the code.
func TestOperationsFindings(t *testing.T) {
	var rows [][]string
	for _, name := range []string{"check.go", "visit.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, findingsIn(file)...)
	}
	if len(rows) < 10 {
		t.Fatalf("the check has %d findings, want them found", len(rows))
	}
	page.Hold(t, operations, "findings", page.Table([]string{"level", "found", "what to do"}, rows))
}

// findingsIn are the findings of a file, each a row of the table.
func findingsIn(file *ast.File) (rows [][]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		switch method, _ := call.Fun.(*ast.SelectorExpr); {
		case method == nil:
		case method.Sel.Name == "find":
			what, mend := cutLast(said(call.Args[1]))
			rows = append(rows, []string{strings.ToLower(strings.TrimPrefix(call.Args[0].(*ast.SelectorExpr).Sel.Name, "Level")), what, mend})
		case method.Sel.Name == "refuse":
			rows = append(rows, []string{"refuses to start", said(call.Args[0]), said(call.Args[1])})
		}
		return true
	})
	return rows
}

// cutLast cuts a finding before what to do about it.
func cutLast(text string) (what, mend string) {
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[:i], text[i+2:]
	}
	return text, ""
}

var verb = regexp.MustCompile(`%[a-zA-Z]`)

// said is the text of an expression, with dots where something else comes in.
func said(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return verb.ReplaceAllString(text, "…")
	case *ast.BinaryExpr:
		return said(e.X) + said(e.Y)
	case *ast.CallExpr:
		if method, ok := e.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Sprintf" {
			return said(e.Args[0])
		}
	}
	return "…"
}
