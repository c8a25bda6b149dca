package gen_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/rlgen/rlgen/testdata/suite"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

// TestWild is as TestCorpus for the packages of each testdata/wild/*.txtar, in directories of one module that have the
// archives' names. Marks that say TORTURE-IGNORE stand in files that the go command does not look into.
func TestWild(t *testing.T) {
	t.Parallel()
	archives, err := filepath.Glob("../testdata/wild/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	module := testmodule.New(t)
	var all []verdict
	for _, v := range wildVariants() {
		c := corpus{variant: v.name, dir: filepath.Join(module, v.name), patterns: []string{"./..."}}
		for _, path := range archives {
			c.places = append(c.places, extract(t, path, c.dir, "example.com/m/"+v.name+"/", v.directive)...)
		}
		if v.name == "global" {
			c.places = append(c.places, writeDeclared(t, c.dir, "example.com/m/"+v.name+"/", v.directive)...)
		}
		all = append(all, judge(t, testmodule.Env(), c)...)
	}
	checkVerdicts(t, all)
	compareVerdicts(t, "../testdata/wild/verdicts.tsv", all)
	vetPlatforms(t, module, []string{"./..."})
}

// wildVariants returns the variants of TestWild: user and global in the long suite. The quick suite
// leaves the user variant to TestCorpus.
func wildVariants() []variant {
	if suite.Long() {
		return variants[:2]
	}
	return variants[1:2]
}

// extract writes the files of an archive below dir, with directives in the places of marks.
func extract(t *testing.T, path, dir, module string, directive func(place) string) []place {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var places []place
	for _, f := range archive.Files {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar") + "/" + f.Name
		text := f.Data
		if strings.HasSuffix(name, ".go") {
			found := marks(name, text)
			places = append(places, found...)
			text = annotate(text, found, directive)
			text = bytes.ReplaceAll(text, []byte("example.com/m/"), []byte(module))
		}
		write(t, filepath.Join(dir, name), text)
	}
	return places
}

// declaredNames are names that generated code has a use for, or looks as if it had. It cannot do without nil and panic.
var declaredNames = []string{
	"true", "string", "error", "bool", "any", "len", "int", "new", "byte", "comparable", "iota",
	"context", "stdctx", "time", "ratelimit", "rules", "fx", "err", "permit", "w", "next", "limiter", "in", "Guard",
}

// declarations are of every kind, by turns.
var declarations = []struct{ kind, text string }{
	{"type", "type NAME struct{}"}, {"var", "var NAME = 1"}, {"const", "const NAME = 1"}, {"func", "func NAME() {}"},
}

const declaring = `package p

import (
	stdctx2 "context"

	"example.com/m/declared/base"
)

DECL

type SvcNAMEKIND[K base.Any] interface {
	// TORTURE: declares-NAME-as-KIND
	Do(ctx stdctx2.Context, k K) (base.Int, base.Err)
	Free(...base.Int)
}

type ImplNAMEKIND struct{}

// TORTURE: declares-NAME-as-KIND-beside-a-struct
func (*ImplNAMEKIND) Do(ctx stdctx2.Context, NAME base.Int) base.Err { return ctx.Err() }
`

// writeDeclared writes packages that declare the names.
func writeDeclared(t *testing.T, dir, module string, directive func(place) string) []place {
	t.Helper()
	write(t, filepath.Join(dir, "declared/base/base.go"), []byte("package base\n\ntype (\n\tAny = any\n\tErr = error\n\tInt = int\n)\n"))
	var places []place
	for i, name := range declaredNames {
		d := declarations[i%len(declarations)]
		replace := strings.NewReplacer("DECL", strings.ReplaceAll(d.text, "NAME", name), "NAME", name, "KIND", d.kind)
		file := "declared/" + name + d.kind + "/svc.go"
		text := []byte(replace.Replace(declaring))
		found := marks(file, text)
		places = append(places, found...)
		text = annotate(text, found, directive)
		write(t, filepath.Join(dir, file), bytes.ReplaceAll(text, []byte("example.com/m/"), []byte(module)))
	}
	return places
}

// TestWildModules is as TestWild for archives that are modules of their own, or workspaces of them.
func TestWildModules(t *testing.T) {
	t.Parallel()
	module := testmodule.Dir(t)
	var all []verdict
	for _, m := range []struct {
		name     string
		patterns []string
		modules  []string
		env      []string
		vendor   bool
	}{
		{name: "major", patterns: []string{"./..."}, modules: []string{"."}, env: testmodule.Env()},
		{name: "workspace", patterns: []string{"./a/...", "./b/..."}, modules: []string{"a", "b"}, env: append(testmodule.Env(), "GOFLAGS=", "GOWORK=")},
		{name: "vendored", patterns: []string{"./..."}, modules: []string{"."}, env: append(testmodule.Env(), "GOFLAGS=-mod=vendor"), vendor: true},
	} {
		dir := filepath.Join(module, m.name)
		places := extract(t, "../testdata/wild/modules/"+m.name+".txtar", filepath.Dir(dir), "example.com/m/", variants[1].directive)
		for i := range places {
			places[i].file = strings.TrimPrefix(places[i].file, m.name+"/")
		}
		for _, module := range m.modules {
			requireRoot(t, filepath.Join(dir, module))
		}
		if m.vendor {
			linkRoot(t, dir)
			write(t, filepath.Join(dir, "keep.go"), []byte("package svc\n\nimport (\n\t_ \"github.com/rlgen/rlgen/ratelimit\"\n\t_ \"github.com/rlgen/rlgen/rules\"\n)\n"))
			goCommand(t, dir, testmodule.Env(), "mod", "vendor")
		}
		verdicts := judge(t, m.env, corpus{"global", dir, m.patterns, places})
		for i := range verdicts {
			verdicts[i].file = m.name + "/" + verdicts[i].file
		}
		all = append(all, verdicts...)
		goCommand(t, dir, m.env, append([]string{"vet"}, m.patterns...)...)
	}
	checkVerdicts(t, all)
	compareVerdicts(t, "../testdata/wild/modules/verdicts.tsv", all)
}

// requireRoot lets a module require this one, and all that it requires.
func requireRoot(t *testing.T, dir string) {
	t.Helper()
	own, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if err := testmodule.Write(dir); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	name, own, _ := bytes.Cut(own, []byte("\n"))
	own = bytes.Replace(own, []byte("go 1.26\n"), nil, 1)
	_, rest, _ := bytes.Cut(mod, []byte("\n"))
	write(t, filepath.Join(dir, "go.mod"), slices.Concat(name, []byte("\n"), rest, own))
}

// linkRoot replaces this module by a link to its directory: go mod vendor cannot handle a replacement with
// a space in its path.
func linkRoot(t *testing.T, dir string) {
	t.Helper()
	if err := os.Symlink(testmodule.Root(), filepath.Join(filepath.Dir(dir), "rlgen")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "go.mod")
	mod, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	linked := []byte("replace github.com/rlgen/rlgen => ../rlgen")
	write(t, path, bytes.Replace(mod, []byte(testmodule.Replace()), linked, 1))
}

// goCommand runs the go command, which must not fail.
func goCommand(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: go %s: %v\n%s", filepath.Base(dir), strings.Join(args, " "), err, out)
	}
}
