package gen

import (
	"go/ast"
	importers "go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestStreams holds which results are read on after the method has returned.
func TestStreams(t *testing.T) {
	t.Parallel()
	const source = `package a

import ("bufio"; "bytes"; "context"; "database/sql"; "io"; "iter"; "net/http"; "os"; "strings")

type pgxRows interface { Next() bool; Close() }
type cursor struct{}
func (*cursor) Next(context.Context) bool { return false }
func (*cursor) Close(context.Context) error { return nil }
type page struct{}
func (*page) Next(int) bool { return false }
func (*page) Close() error { return nil }
type meter struct{}
func (meter) Read(id string) (float64, error) { return 0, nil }
type object struct { Size int; Body io.ReadCloser }
type sealed struct { body io.ReadCloser }
type held struct { Text *bytes.Buffer }
type list []list

var streams struct {
	a io.Reader; b *os.File; c *http.Response; d <-chan int; e []<-chan int; f map[string]io.ReadCloser; g iter.Seq[int]
	h pgxRows; i *cursor; j *sql.Row; k *sql.Rows; l *bufio.Scanner; m *bufio.Reader; n *object; o object
}
var whole struct {
	a *bytes.Buffer; b *strings.Reader; c *bytes.Reader; d meter; e *page; f chan<- int; g []byte; h *sealed; i held; j list; k cursor; l error; m func(string) bool
}`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "a.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	conf := types.Config{Importer: standardImporter(t, files, file)}
	pkg, err := conf.Check("a", files, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"streams": true, "whole": false} {
		for field := range pkg.Scope().Lookup(name).Type().(*types.Struct).Fields() {
			if got := streams(field.Type()); got != want {
				t.Errorf("streams(%v) = %t, want %t", field.Type(), got, want)
			}
		}
	}
}

// standardImporter returns an importer of the packages of the standard library that a file imports. It
// reads export data, so it needs no C compiler.
func standardImporter(t *testing.T, files *token.FileSet, file *ast.File) types.Importer {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = export
	}
	return importers.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}
