package gen_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
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

// TestGolden generates for the packages of each testdata/gen/*.txtar. The files of an archive are the input, but for
// those below want/, which are what is generated, and findings, which is what is said. The archive's
// comment may give a -di flag. Everything that was generated must then pass go vet, in one module.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("../testdata/gen/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	t.Parallel()
	module := testmodule.New(t)
	t.Run("cases", func(t *testing.T) { // returns when all cases have ended
		for _, path := range archives {
			name := strings.TrimSuffix(filepath.Base(path), ".txtar")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				archive, err := txtar.ParseFile(path)
				if err != nil {
					t.Fatal(err)
				}
				got := generate(t, filepath.Join(module, name), archive)
				if *update {
					if err := os.WriteFile(path, txtar.Format(got), 0o666); err != nil {
						t.Fatal(err)
					}
					return
				}
				if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			})
		}
	})
	platforms := [][]string{nil, {"GOOS=windows", "GOARCH=386"}}
	if !suite.Long() {
		platforms = platforms[1:]
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

// generate writes the archive's input below dir, generates, and returns the archive with what came of it.
func generate(t *testing.T, dir string, archive *txtar.Archive) *txtar.Archive {
	t.Helper()
	got := &txtar.Archive{Comment: archive.Comment}
	for _, f := range archive.Files {
		if f.Name == "findings" || strings.HasPrefix(f.Name, "want/") {
			continue
		}
		got.Files = append(got.Files, f)
		write(t, filepath.Join(dir, f.Name), f.Data)
	}
	cfg := gen.Config{Dir: dir, Patterns: []string{"./..."}, Env: testmodule.Env(), DI: di(t, string(archive.Comment))}
	r, err := gen.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var findings strings.Builder
	for _, f := range r.Findings {
		findings.WriteString(f.Text(dir) + "\n")
	}
	if findings.Len() > 0 {
		got.Files = append(got.Files, txtar.File{Name: "findings", Data: []byte(findings.String())})
	}
	if r.Failed() {
		if err := os.RemoveAll(dir); err != nil { // it may not compile
			t.Fatal(err)
		}
		return got
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Files {
		rel, err := filepath.Rel(dir, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		got.Files = append(got.Files, txtar.File{Name: "want/" + filepath.ToSlash(rel), Data: f.Text})
	}
	if !suite.Long() { // TestCorpus runs a second time
		return got
	}
	again, err := gen.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if stale := again.Stale(); again.Failed() || len(stale) > 0 {
		t.Errorf("a second run finds %v and would write %v, want nothing", again.Findings, stale)
	}
	return got
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
