package gen_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/go/packages"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

// BenchmarkRun generates for two modules: one of 100 packages with 1,000 annotated methods, one of 500 packages of which
// 3 have an annotated one. Beside its own time it reports what share that is of the time of its yardstick: loading
// the same packages with types, and go list together with loading the three. The goals are 1.5 and 1.
func BenchmarkRun(b *testing.B) {
	b.Run("packages=100/methods=1000", func(b *testing.B) {
		dir := newCorpus(b, 100, 100, 10)
		compare(b, dir, "run/load", func() { load(b, dir, "./...") })
	})
	b.Run("packages=500/methods=3", func(b *testing.B) {
		dir := newCorpus(b, 500, 3, 1)
		compare(b, dir, "run/list+3", func() {
			list(b, dir)
			load(b, dir, "./p0", "./p1", "./p2")
		})
	})
}

// compare measures Run, and the yardstick as often; both once before, so that the go command has built what it
// will.
func compare(b *testing.B, dir, unit string, yardstick func()) {
	run := func() {
		r, err := gen.Run(b.Context(), gen.Config{Dir: dir, Patterns: []string{"./..."}, Env: testmodule.Env(), DI: gen.DI{Fx: true}})
		if err != nil || r.Failed() {
			b.Fatalf("Run: %v, %v", r, err)
		}
		if err := r.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	run()
	run()
	yardstick()
	var ran, loaded time.Duration
	for b.Loop() {
		start := time.Now()
		run()
		ran += time.Since(start)
		start = time.Now()
		yardstick()
		loaded += time.Since(start)
	}
	b.ReportMetric(float64(ran)/float64(loaded), unit)
	b.ReportMetric(ran.Seconds()/float64(b.N), "s/run")
	b.ReportMetric(loaded.Seconds()/float64(b.N), "s/yardstick")
}

// load loads packages with their syntax and types, and what they depend on from export data.
func load(b *testing.B, dir string, patterns ...string) {
	b.Helper()
	cfg := &packages.Config{Mode: packages.LoadSyntax, Dir: dir, Env: testmodule.Env(), Context: b.Context()}
	if _, err := packages.Load(cfg, patterns...); err != nil {
		b.Fatal(err)
	}
}

func list(b *testing.B, dir string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "go", "list", "./...")
	cmd.Dir, cmd.Env = dir, testmodule.Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
}

// newCorpus returns a module of packages, the first of them annotated, with so many methods each. Every package uses some of
// the standard library, and every tenth the one before it.
func newCorpus(b testing.TB, packages, annotated, methods int) string {
	b.Helper()
	dir := testmodule.New(b)
	for i := range packages {
		var text strings.Builder
		fmt.Fprintf(&text, "package p%d\n\nimport (\n\t\"context\"\n\t\"net/http\"\n\t\"time\"\n", i)
		use := "http.Header"
		if i%10 == 9 {
			fmt.Fprintf(&text, "\n\t\"example.com/m/p%d\"\n", i-1)
			use = fmt.Sprintf("p%d.Request", i-1)
		}
		fmt.Fprintf(&text, ")\n\ntype Request struct {\n\tID string\n\tAt time.Time\n\tHeader http.Header\n}\n\ntype Service interface {\n")
		for m := range methods {
			if i < annotated {
				fmt.Fprintf(&text, "\t//ratelimit:user 10,1s 100,1m\n\t//ratelimit:key 20,1s by=req.ID\n")
			}
			fmt.Fprintf(&text, "\tMethod%d(ctx context.Context, req *Request, other %s) (http.Header, error)\n", m, use)
		}
		fmt.Fprintf(&text, "}\n\ntype Impl struct{ n int }\n\n")
		for m := range methods {
			fmt.Fprintf(&text, "func (s *Impl) Method%d(ctx context.Context, req *Request, other %s) (http.Header, error) {\n\ts.n++\n\treturn req.Header, ctx.Err()\n}\n\n", m, use)
		}
		fmt.Fprintf(&text, "func New() *Impl { return &Impl{} }\n")
		write(b, filepath.Join(dir, fmt.Sprintf("p%d/p.go", i)), []byte(text.String()))
	}
	return dir
}
