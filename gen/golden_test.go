package gen_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/testdata/suite"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

var update = flag.Bool("update", false, "rewrite the expectations of testdata/gen")

// goldenCase is an archive of testdata/gen. Its files are the input, but for those below want/,
// which are generated, and findings, which has what the generator reports. Its comment may have a
// line with a -di flag.
type goldenCase struct {
	name    string
	path    string
	dir     string // where the input is
	archive *txtar.Archive
	got     *txtar.Archive
	failed  bool // it has errors, so nothing is generated for it
}

// TestGolden generates for all testdata/gen/*.txtar and compares the results. Cases share a run of
// the generator where they can. Everything that was generated must then pass go vet.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("../testdata/gen/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	t.Parallel()
	module := testmodule.New(t)
	var runs []*goldenRun
	for _, path := range archives {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		c := &goldenCase{name: name, path: path, dir: filepath.Join(module, name)}
		if c.archive, err = txtar.ParseFile(path); err != nil {
			t.Fatal(err)
		}
		c.writeInput(t)
		runs = addToRun(runs, c, di(t, string(c.archive.Comment)))
	}
	for _, run := range runs {
		run.generate(t, module)
		for _, c := range run.cases {
			t.Run(c.name, func(t *testing.T) { c.compare(t) })
		}
	}
	platforms := [][]string{nil}
	if suite.Long() {
		platforms = append(platforms, []string{"GOOS=windows", "GOARCH=386"})
	}
	for _, platform := range platforms {
		vet := exec.Command("go", "vet", "-tags=far", "./...")
		vet.Dir = module
		vet.Env = append(testmodule.Env(), platform...)
		if out, err := vet.CombinedOutput(); err != nil {
			t.Errorf("%v go vet: %v\n%s", platform, err, out)
		}
	}
}

// writeInput writes the input below c.dir, and starts c.got with it.
func (c *goldenCase) writeInput(t *testing.T) {
	t.Helper()
	c.got = &txtar.Archive{Comment: c.archive.Comment}
	for _, f := range c.archive.Files {
		if f.Name == "findings" || strings.HasPrefix(f.Name, "want/") {
			continue
		}
		c.got.Files = append(c.got.Files, f)
		write(t, filepath.Join(c.dir, f.Name), f.Data)
	}
}

// compare compares c.got with the archive, or writes it with -update.
func (c *goldenCase) compare(t *testing.T) {
	t.Helper()
	if *update {
		if err := os.WriteFile(c.path, txtar.Format(c.got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(c.archive)), string(txtar.Format(c.got))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", c.path, diff)
	}
}

// goldenRun is a run of the generator for several cases. No two of them have packages of one name,
// because services of one name in such packages are an error.
type goldenRun struct {
	di       gen.DI
	packages map[string]bool
	cases    []*goldenCase
}

var packageLine = regexp.MustCompile(`(?m)^package (\w+)`)

// addToRun adds a case to the first run that can have it, or to a new one.
func addToRun(runs []*goldenRun, c *goldenCase, di gen.DI) []*goldenRun {
	packages := map[string]bool{}
	for _, f := range c.got.Files {
		for _, match := range packageLine.FindAllSubmatch(f.Data, -1) {
			packages[string(match[1])] = true
		}
	}
	i := slices.IndexFunc(runs, func(r *goldenRun) bool {
		shared := maps.Clone(r.packages)
		maps.DeleteFunc(shared, func(name string, _ bool) bool { return !packages[name] })
		return r.di == di && len(shared) == 0
	})
	if i < 0 {
		i = len(runs)
		runs = append(runs, &goldenRun{di: di, packages: map[string]bool{}})
	}
	maps.Copy(runs[i].packages, packages)
	runs[i].cases = append(runs[i].cases, c)
	return runs
}

// generate generates for the cases and adds the findings and files to their results. Cases that
// have errors are removed, and the generator runs again for the others, which write their files.
func (r *goldenRun) generate(t *testing.T, module string) {
	t.Helper()
	cfg := gen.Config{Dir: module, Env: testmodule.Env(), DI: r.di}
	cases := r.cases
	for {
		cfg.Patterns = nil
		for _, c := range cases {
			cfg.Patterns = append(cfg.Patterns, "./"+c.name+"/...")
		}
		result, err := gen.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		addFindings(t, result, cases)
		if !result.Failed() {
			addFiles(t, result, cases)
			break
		}
		cases = slices.DeleteFunc(slices.Clone(cases), func(c *goldenCase) bool { return c.failed })
		if len(cases) == 0 {
			return
		}
	}
	again, err := gen.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if stale := again.Stale(); again.Failed() || len(stale) > 0 {
		t.Errorf("a second run finds %v and would write %v, want nothing", again.Findings, stale)
	}
}

// addFindings adds the findings of a run to the results of its cases. If the run failed, it does so
// only for the cases that have errors, and removes their input.
func addFindings(t *testing.T, r *gen.Result, cases []*goldenCase) {
	t.Helper()
	texts := map[*goldenCase]string{}
	for _, f := range r.Findings {
		c := caseOf(cases, f.Pos.Filename)
		if c == nil {
			t.Fatalf("finding %q, which belongs to no case", f.Text(""))
		}
		texts[c] += f.Text(c.dir) + "\n"
		c.failed = c.failed || !f.Warning
	}
	for _, c := range cases {
		if texts[c] != "" && c.failed == r.Failed() {
			c.got.Files = append(c.got.Files, txtar.File{Name: "findings", Data: []byte(texts[c])})
		}
		if !c.failed {
			continue
		}
		if err := os.RemoveAll(c.dir); err != nil { // it may not compile
			t.Fatal(err)
		}
	}
}

// addFiles writes the files of a run and adds them to the results of its cases.
func addFiles(t *testing.T, r *gen.Result, cases []*goldenCase) {
	t.Helper()
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Files {
		c := caseOf(cases, f.Path)
		if c == nil {
			t.Fatalf("%s is generated, which belongs to no case", f.Path)
		}
		c.got.Files = append(c.got.Files, txtar.File{Name: "want/" + slashes(c.dir, f.Path), Data: f.Text})
	}
}

// caseOf returns the case whose directory has the file at path, or nil.
func caseOf(cases []*goldenCase, path string) *goldenCase {
	i := slices.IndexFunc(cases, func(c *goldenCase) bool {
		return strings.HasPrefix(path, c.dir+string(filepath.Separator))
	})
	if i < 0 {
		return nil
	}
	return cases[i]
}

// di reads the first line of an archive's comment that is a flag.
func di(t *testing.T, comment string) gen.DI {
	t.Helper()
	for line := range strings.Lines(comment) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "-di="); ok {
			di, ok := gen.ParseDI(value)
			if !ok {
				t.Fatalf("ParseDI(%q) is not ok", value)
			}
			return di
		}
	}
	return gen.DI{}
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestDeterministic generates for a package with many imports several times, and where other files stand
// in the place of what it generates.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	dir := testmodule.New(t)
	const source = `package b

import (
	"context"
	"net/http"
	"net/url"
)

type B interface {
	//ratelimit:key 10,1s by=u.Host
	//ratelimit:key 20,1s by=r.URL.Path
	M(ctx context.Context, u *url.URL, r *http.Request) (http.Header, error)
}

type C[K comparable, V any] interface {
	//ratelimit:global 10,1s
	M(ctx context.Context, k K) (V, error)
}
`
	formers := []func(text string) string{ // of the same file
		func(text string) string { return text },
		func(text string) string { return strings.Replace(text, `"net/url"`, `"net/mail"`, 1) },
		func(text string) string { return strings.Replace(text, `"net/url"`, `other "net/url"`, 1) },
		func(text string) string {
			return strings.Replace(text, `"net/url"`, `"net/url"`+"\n\tu \"math/rand/v2\"", 1)
		},
		func(text string) string { return text[:strings.Index(text, "import")] },
		func(text string) string { return text + "<<<<<<< HEAD\n" },
		func(text string) string { return "<<<<<<< HEAD\n" + text },
		func(text string) string { return "" },
	}
	for i := range formers {
		own := strings.Replace(source, "package b", fmt.Sprintf("package b%d", i), 1)
		write(t, filepath.Join(dir, fmt.Sprintf("b%d/b.go", i)), []byte(own))
	}
	first := texts(t, dir, "./...")
	if again := texts(t, dir, "./..."); len(again) != 2*len(formers) || !maps.Equal(first, again) {
		t.Fatalf("Run gives other files each time: %v", slices.Sorted(maps.Keys(again)))
	}
	for i, former := range formers {
		path := fmt.Sprintf("b%d/b_ratelimit.go", i)
		write(t, filepath.Join(dir, path), []byte(former(first[path])))
	}
	again := texts(t, dir, "./...")
	for path, text := range first {
		if again[path] != text {
			t.Errorf("in the place of another file Run gives %s\n%s\nwant\n%s", path, again[path], text)
		}
	}
	if len(again) != len(first) {
		t.Errorf("Run gives %v", slices.Sorted(maps.Keys(again)))
	}
}
