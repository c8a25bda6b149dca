package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/rlgen/rlgen/gen"
)

// corpus does work on a module of 100 packages with 1,000 limited methods.
func corpus(work func(dir string) error) open {
	return func(l *lab) (call, error) {
		dir, err := os.MkdirTemp("", "corpus")
		if err != nil {
			return nil, err
		}
		l.Cleanup(func() { os.RemoveAll(dir) })
		if err := writeCorpus(dir); err != nil {
			return nil, err
		}
		if err := generate(dir); err != nil { // so that all work on the same packages, with their wrappers and what these import
			return nil, err
		}
		for range 2 { // so that the go command has built what it will
			if err := work(dir); err != nil {
				return nil, err
			}
		}
		return func(int) error { return work(dir) }, nil
	}
}

func environment() []string {
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
}

// generate does what rlgen ./... does.
func generate(dir string) error {
	r, err := gen.Run(context.Background(), gen.Config{Dir: dir, Patterns: []string{"./..."}, Env: environment(), DI: gen.DI{Fx: true}})
	if err != nil {
		return err
	}
	if r.Failed() {
		return fmt.Errorf("rlgen finds faults with the corpus: %v", r.Findings)
	}
	return r.Commit()
}

// load loads the packages with their syntax and types, as any tool that looks at them has to.
func load(dir string) error {
	roots, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir, Env: environment()}, "./...")
	for _, p := range roots {
		for _, fault := range p.Errors {
			err = errors.Join(err, fault)
		}
	}
	return err
}

func writeCorpus(dir string) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/rlgen/rlgen").Output()
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "go.sum")) // so that nobody has to be asked for them
	if err != nil {
		return err
	}
	files := map[string]string{"go.sum": string(sums), "go.mod": "module example.com/m\n\ngo 1.26.0\n\nrequire github.com/rlgen/rlgen v0.0.0\n\n" +
		"replace github.com/rlgen/rlgen => " + strings.TrimSpace(string(root)) + "\n"}
	for i := range 100 {
		var text strings.Builder
		fmt.Fprintf(&text, "package p%d\n\nimport (\n\t\"context\"\n\t\"net/http\"\n)\n\ntype Request struct{ ID string }\n\ntype Service interface {\n", i)
		for m := range 10 {
			fmt.Fprintf(&text, "\t//ratelimit:user 10,1s 100,1m\n\t//ratelimit:key 20,1s by=req.ID\n\tMethod%d(ctx context.Context, req *Request) (http.Header, error)\n", m)
		}
		text.WriteString("}\n")
		files[fmt.Sprintf("p%d/p.go", i)] = text.String()
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
