package gen_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/testdata/suite"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

// threePackages returns a module with directives in three packages, of which one has files for windows only.
func threePackages(t *testing.T) string {
	t.Helper()
	dir := testmodule.New(t)
	for _, file := range []string{"a/a.go", "b/b.go", "sub/far/far_windows.go"} {
		name := strings.Split(filepath.Base(file), "_")[0]
		name = strings.TrimSuffix(name, ".go")
		write(t, filepath.Join(dir, file), []byte("package "+name+`

import "context"

type Svc interface {
	//ratelimit:user 10,1s
	Do(ctx context.Context, id string) error
}
`))
	}
	return dir
}

func texts(t *testing.T, dir string, patterns ...string) map[string]string {
	t.Helper()
	r, err := gen.Run(t.Context(), gen.Config{Dir: dir, Patterns: patterns, Env: testmodule.Env(), DI: gen.DI{Fx: true}})
	if err != nil || r.Failed() {
		t.Fatalf("Run(%v) = %v, %v", patterns, r, err)
	}
	files := map[string]string{}
	for _, f := range r.Files {
		files[slashes(dir, f.Path)] = string(f.Text)
	}
	return files
}

// TestPatterns wants the same of every way to name the packages, in any order, directories without a file for this
// system among them.
func TestPatterns(t *testing.T) {
	t.Parallel()
	dir := threePackages(t)
	want := texts(t, dir, "./...")
	if want["sub/far/far_ratelimit_windows.go"] == "" {
		t.Fatalf("./... generates no far_ratelimit_windows.go")
	}
	shuffles := 1
	if suite.Long() {
		shuffles = 4
	}
	ways := [][]string{
		{"example.com/m/..."},
		{"all"},
		{"example.com/m/sub/...", "example.com/m/a", "./b"},
		{"example.com/m/sub/far", "./a", "./b"},
		{"./a/...", "./b", "./sub/...", "./a"},
		{filepath.Join(dir, "a"), "./a/../b/", filepath.ToSlash(dir) + "/sub/..."},
	}
	for _, patterns := range ways {
		for range shuffles {
			rand.Shuffle(len(patterns), func(i, j int) { patterns[i], patterns[j] = patterns[j], patterns[i] })
			if diff := gocmp.Diff(want, texts(t, dir, patterns...)); diff != "" {
				t.Errorf("%v (-./... +got):\n%s", patterns, diff)
			}
		}
	}
}

// TestPathsOfNoPackage wants what go list says of paths beside those of packages, even where there are directives below them.
func TestPathsOfNoPackage(t *testing.T) {
	t.Parallel()
	dir := threePackages(t)
	a, err := os.ReadFile(filepath.Join(dir, "a/a.go"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "other/a.go"), a)
	write(t, filepath.Join(dir, "other/go.mod"), []byte("module example.com/other\n"))
	write(t, filepath.Join(dir, "empty/README"), nil)
	for pattern, want := range map[string]string{
		"./other":     "main module (example.com/m) does not contain package example.com/m/other",
		"./other/...": "directory prefix other does not contain main module",
		"./empty":     "no Go files in " + filepath.Join(dir, "empty"),
		"./missing":   "directory not found",
		"./a/a.txt":   "directory not found",
	} {
		r, err := gen.Run(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./a", pattern}, Env: testmodule.Env()})
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(r.Findings)
		}
		if !strings.Contains(got, want) {
			t.Errorf("Run(%q) says %s, want %s", pattern, got, want)
		}
	}
}

// TestRelativeDir wants the same of a directory that is given as seen from the current one.
func TestRelativeDir(t *testing.T) {
	dir := threePackages(t)
	want := texts(t, dir, "./...")
	t.Chdir(filepath.Dir(dir))
	r, err := gen.Run(t.Context(), gen.Config{Dir: filepath.Base(dir), Patterns: []string{"./..."}, Env: testmodule.Env(), DI: gen.DI{Fx: true}})
	if err != nil || r.Failed() || len(r.Files) != len(want) {
		t.Fatalf("Run = %v, %v, want %d files", r, err, len(want))
	}
	for _, f := range r.Files {
		if text, ok := want[slashes(dir, f.Path)]; !ok || text != string(f.Text) {
			t.Errorf("Run makes %s:\n%s\nwant\n%s", f.Path, f.Text, text)
		}
	}
}

// TestCommitAtOnce writes two different results over each other, many times, while others read: each reads one
// or the other as a whole.
func TestCommitAtOnce(t *testing.T) {
	t.Parallel()
	dir := threePackages(t)
	result := func() *gen.Result {
		r, err := gen.Run(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}, Env: testmodule.Env()})
		if err != nil || r.Failed() {
			t.Fatalf("Run = %v, %v", r, err)
		}
		return r
	}
	first := result()
	path := filepath.Join(dir, "a/a.go")
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, []byte(strings.Replace(string(source), "10,1s", "20,1s 30,1m", 1)))
	second := result()
	either := map[string]bool{string(first.Files[0].Text): true, string(second.Files[0].Text): true}
	if len(either) != 2 {
		t.Fatal("both results are the same")
	}
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for _, r := range []*gen.Result{first, second, first, second} {
		writers.Go(func() {
			for range 100 {
				if err := r.Commit(); err != nil {
					t.Errorf("Commit = %v", err)
				}
			}
		})
	}
	readers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			text, err := os.ReadFile(first.Files[0].Path)
			if err != nil || !either[string(text)] {
				t.Errorf("ReadFile gives %d bytes that nobody wrote, %v", len(text), err)
				return
			}
		}
	})
	writers.Wait()
	close(done)
	readers.Wait()
	if left, _ := filepath.Glob(filepath.Join(dir, "a/.rlgen-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
