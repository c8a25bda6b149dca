package gen_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/testdata/suite"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

const (
	corpusDir    = "../testdata/torture"
	corpusModule = "example.com/torture"
	verdictsFile = "../testdata/torture/VERDICTS.tsv"
)

// variant is a directive for each mark of the corpus.
type variant struct {
	name      string
	directive func(p place) string
}

// variants are the directives that the marks of the corpus are replaced by. The third is what a person would write
// after reading what the other two are refused for.
var variants = []variant{
	{"user", func(place) string { return "//ratelimit:user 10,1s" }},
	{"global", func(place) string { return "//ratelimit:global 10,1s" }},
	{"mended", func(p place) string {
		if line, ok := mended[p.name]; ok {
			return line
		}
		return "//ratelimit:global 10,1s"
	}},
}

const denyZero = "//ratelimit:global 10,1s deny=zero"

// mended are the directives of cases that the plain ones are refused for.
var mended = map[string]string{
	"no-context":                                    "//ratelimit:user 10,1s by=id",
	"fake-context-type-by-name":                     "//ratelimit:user 10,1s by=id",
	"fake-context-pointer":                          "//ratelimit:user 10,1s by=id",
	"type-params-named-context-error-nil-ratelimit": denyZero,
	"error-result-is-a-type-param":                  denyZero,
	"no-results-at-all":                             denyZero,
	"no-error-single-value":                         denyZero,
	"value-and-ok-no-error":                         denyZero,
	"no-params-no-results":                          denyZero,
	"no-params-one-result":                          denyZero,
	"concrete-error-pointer":                        denyZero,
	"interface-embedding-error":                     denyZero,
	"error-inside-generic-result":                   denyZero,
	"func-returning-error-is-not-an-error-result":   denyZero,
	"channel-of-error-result":                       denyZero,
	"slice-of-errors-result":                        denyZero,
	"override-of-promoted-method":                   denyZero,
	"only-variadic":                                 denyZero,
}

// mendedLines replace lines of the third variant that are not marks.
var mendedLines = map[string]string{
	"// Orders is the interface to wrap.": "//ratelimit:wrapper GuardedOrders",
}

// place is one mark: a line where a directive is to stand.
type place struct {
	want string // "wrap", "reject" or "ignore"
	name string
	file string // relative, in slashes
	line int
	end  int // the last line of what the mark is for
	typ  int // the line of the name of the type that has it, 0 if there is none
}

// corpus is a directory with places, in which each place has the directive of a variant.
type corpus struct {
	variant  string
	dir      string
	patterns []string // of its packages, relative to dir
	places   []place
}

func (p place) pos() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// verdict is what came of a place.
type verdict struct {
	place
	variant string
	said    string // "wrapped", or the first finding
}

func (v verdict) wrapped() bool { return v.said == "wrapped" }

var markLine = regexp.MustCompile(`// TORTURE(-REJECT|-IGNORE)?: (\S+)`)

// TestCorpus generates for the corpus, in each variant, and wants of each place what its manifest does: methods are
// wrapped in one variant at least, what is to be refused is refused in all of them, at its place. What was generated
// must pass go vet on several platforms. VERDICTS.tsv has what is said of each place.
func TestCorpus(t *testing.T) {
	t.Parallel()
	module := testmodule.New(t)
	var all []verdict
	for _, v := range variants {
		c := corpus{variant: v.name, dir: filepath.Join(module, v.name), patterns: []string{"./...", "./testdata/..."}}
		c.places = copyCorpus(t, corpusDir, c.dir, corpusModule, "example.com/m/"+v.name, v.directive)
		if v.name == "user" {
			checkManifest(t, c.places)
		}
		all = append(all, judge(t, testmodule.Env(), c)...)
	}
	checkVerdicts(t, all)
	compareVerdicts(t, verdictsFile, all)
	packages := []string{"./..."}
	for _, v := range variants {
		for _, name := range []string{"chicken", "stale", "conflict"} {
			packages = append(packages, "./"+v.name+"/testdata/"+name)
		}
	}
	vetPlatforms(t, module, packages)
}

// checkManifest compares the marks with the manifest.
func checkManifest(t *testing.T, places []place) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(corpusDir, "MANIFEST.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if f[0] != "want" {
			want[f[5]] = f[0] + " " + f[1]
		}
	}
	got := map[string]string{}
	for _, p := range places {
		got[p.pos()] = p.want + " " + p.name
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("marks differ from MANIFEST.tsv (-want +got):\n%s", diff)
	}
}

// checkVerdicts wants the places that must be refused refused in every variant, and the others wrapped in one.
func checkVerdicts(t *testing.T, all []verdict) {
	t.Helper()
	wrapped := map[string]bool{}
	for _, v := range all {
		wrapped[v.pos()] = wrapped[v.pos()] || v.wrapped()
	}
	for _, v := range all {
		switch {
		case v.want == "reject" && v.wrapped():
			t.Errorf("%s: %s: %s is wrapped, want it refused", v.variant, v.pos(), v.name)
		case v.want == "ignore" && v.said != "ignored":
			t.Errorf("%s: %s: %s is %s, want it left alone", v.variant, v.pos(), v.name, v.said)
		case v.want == "wrap" && !wrapped[v.pos()]:
			t.Errorf("%s: %s: %s is wrapped in no variant: %s", v.variant, v.pos(), v.name, v.said)
		}
	}
}

// compareVerdicts compares the verdicts with those that a file has of the same variants, or rewrites the file
// in the long suite, which has all variants.
func compareVerdicts(t *testing.T, path string, all []verdict) {
	t.Helper()
	var b strings.Builder
	b.WriteString("case\tdirective\tverdict\n")
	slices.SortStableFunc(all, func(a, b verdict) int {
		return cmp.Or(strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	for _, v := range all {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", v.name, v.variant, v.said)
	}
	if *update && suite.Long() {
		if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{"directive": true}
	for _, v := range all {
		ran[v.variant] = true
	}
	var expected strings.Builder
	for line := range strings.Lines(string(want)) {
		if fields := strings.Split(line, "\t"); len(fields) < 2 || ran[fields[1]] {
			expected.WriteString(line)
		}
	}
	if diff := gocmp.Diff(expected.String(), b.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// copyCorpus copies a corpus to dir as part of another module, with the directives in the places of its marks.
func copyCorpus(t *testing.T, from, dir, oldModule, newModule string, directive func(place) string) []place {
	t.Helper()
	var places []place
	err := fs.WalkDir(os.DirFS(from), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || name == "go.mod" {
			return err
		}
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".go") {
			found := marks(name, text)
			places = append(places, found...)
			text = annotate(text, found, directive)
			text = bytes.ReplaceAll(text, []byte(oldModule+"/"), []byte(newModule+"/"))
			if filepath.Base(dir) == "mended" {
				text = mendLines(text)
			}
		}
		write(t, filepath.Join(dir, name), text)
		return nil
	})
	if err != nil || len(places) == 0 {
		t.Fatalf("%d places: %v", len(places), err)
	}
	return places
}

func mendLines(text []byte) []byte {
	for line, mend := range mendedLines {
		text = bytes.ReplaceAll(text, []byte(line), []byte(mend))
	}
	return text
}

// marks returns the places of one file.
func marks(name string, text []byte) []place {
	var places []place
	for i, line := range strings.Split(string(text), "\n") {
		if m := markLine.FindStringSubmatch(line); m != nil {
			p := place{want: "wrap", name: m[2], file: name, line: i + 1, end: i + 1}
			if m[1] != "" {
				p.want = strings.ToLower(m[1][1:])
			}
			places = append(places, p)
		}
	}
	spans(text, places)
	return places
}

// spans finds out what the marks stand on.
func spans(text []byte, places []place) {
	fset := token.NewFileSet()
	f, _ := parser.ParseFile(fset, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if f == nil {
		return
	}
	line := func(pos token.Pos) int { return fset.PositionFor(pos, false).Line }
	typeLines := map[string]int{}
	set := func(doc *ast.CommentGroup, n ast.Node, typ int) {
		for i := range places {
			if p := &places[i]; doc != nil && line(doc.Pos()) <= p.line && p.line <= line(doc.End()) {
				p.end, p.typ = line(n.End()), typ
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			typeLines[spec.Name.Name] = line(spec.Name.Pos())
		}
		return true
	})
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			set(n.Doc, n, 0)
		case *ast.TypeSpec:
			set(n.Doc, n, 0)
			if iface, ok := ast.Unparen(n.Type).(*ast.InterfaceType); ok {
				for _, field := range iface.Methods.List {
					set(field.Doc, field, typeLines[n.Name.Name])
				}
			}
		case *ast.FuncDecl:
			typ := 0
			if n.Recv != nil && len(n.Recv.List) == 1 {
				ast.Inspect(n.Recv.List[0].Type, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok && typ == 0 {
						typ = typeLines[id.Name]
					}
					return true
				})
			}
			set(n.Doc, n, typ)
		}
		return true
	})
}

// annotate replaces marks by directives, of which an empty one leaves a plain remark.
func annotate(text []byte, places []place, directive func(place) string) []byte {
	lines := strings.Split(string(text), "\n")
	for _, p := range places {
		line := directive(p)
		if line == "" {
			line = "// Not limited."
		}
		lines[p.line-1] = markLine.ReplaceAllLiteralString(lines[p.line-1], line)
	}
	return []byte(strings.Join(lines, "\n"))
}

// judge generates for a corpus, removes the directives that are refused, generates for the others,
// and returns what is said of each place.
func judge(t *testing.T, env []string, c corpus) []verdict {
	t.Helper()
	cfg := gen.Config{Dir: c.dir, Patterns: c.patterns, Env: env}
	said := map[string]string{} // by the position of a place
	var r *gen.Result
	for round := 0; ; round++ {
		var err error
		if r, err = gen.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if !r.Failed() {
			break
		}
		if err := r.Commit(); err == nil {
			t.Fatal("Commit writes in spite of findings")
		}
		if round > 3 {
			t.Fatalf("%s: %v, want no findings where no directives are left", c.variant, r.Findings)
		}
		c.removeRefused(t, r, said)
	}
	if err := r.Commit(); err != nil {
		t.Fatal(err)
	}
	checkAgain(t, c.variant, cfg)
	limited := map[string]bool{}
	for _, m := range r.Methods {
		limited[fmt.Sprintf("%s:%d", slashes(c.dir, m.Pos.Filename), m.Pos.Line)] = true
	}
	var list []verdict
	for _, p := range c.places {
		v := verdict{place: p, variant: c.variant, said: said[p.pos()]}
		for line := p.line; line <= p.end && v.said == ""; line++ {
			if limited[fmt.Sprintf("%s:%d", p.file, line)] {
				v.said = "wrapped"
			}
		}
		if v.said == "" && p.want == "ignore" {
			v.said = "ignored"
		}
		if v.said == "" {
			t.Errorf("%s: %s: %s is ignored, want it wrapped or refused", c.variant, p.pos(), p.name)
		}
		list = append(list, v)
	}
	return list
}

// removeRefused adds the errors of a run to what is said, and removes the directives that they are
// about.
func (c corpus) removeRefused(t *testing.T, r *gen.Result, said map[string]string) {
	t.Helper()
	refused := map[string][]place{}
	for _, f := range r.Findings {
		if f.Warning {
			continue
		}
		at := blamed(f, c.dir, c.places)
		if len(at) == 0 {
			t.Errorf("%s: %s, want findings at the places only", c.variant, f.Text(c.dir))
		}
		for _, p := range at {
			if said[p.pos()] == "" {
				said[p.pos()] = "refused " + f.Text(c.dir)
				refused[p.file] = append(refused[p.file], p)
			}
		}
	}
	for file, list := range refused {
		quieten(t, filepath.Join(c.dir, file), list)
	}
}

// checkAgain generates a second time, which must change nothing.
func checkAgain(t *testing.T, variant string, cfg gen.Config) {
	t.Helper()
	again, err := gen.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if stale := again.Stale(); again.Failed() || len(stale) > 0 {
		t.Errorf("%s: a second run finds %v and would write %v, want nothing", variant, again.Findings, stale)
	}
}

// quieten takes the directives of places away.
func quieten(t *testing.T, path string, places []place) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, p := range places {
		before, _, _ := strings.Cut(lines[p.line-1], "//")
		lines[p.line-1] = before + "// Refused."
	}
	write(t, path, []byte(strings.Join(lines, "\n")))
}

func slashes(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// blamed returns the places that a finding is about: those that it stands in, or all of the type that it stands on.
func blamed(f gen.Finding, dir string, places []place) []place {
	file := slashes(dir, f.Pos.Filename)
	var in, on []place
	for _, p := range places {
		switch {
		case p.file != file:
		case p.line <= f.Pos.Line && f.Pos.Line <= p.end:
			in = append(in, p)
		case p.typ == f.Pos.Line:
			on = append(on, p)
		}
	}
	if len(in) > 0 {
		return in
	}
	return on
}

// vetPlatforms runs go vet over packages of a module. The long suite does so for three systems and two sets
// of tags, the quick suite for this system and one set.
func vetPlatforms(t *testing.T, dir string, packages []string) {
	t.Helper()
	systems := []string{"linux", "windows", "darwin"}
	if !suite.Long() {
		systems = []string{runtime.GOOS}
	}
	tagSets := []string{"", "far,slow"}
	if !suite.Long() {
		tagSets = tagSets[1:]
	}
	for _, goos := range systems {
		for _, tags := range tagSets {
			vet := exec.Command("go", append([]string{"vet", "-tags=" + tags}, packages...)...)
			vet.Dir = dir
			vet.Env = append(testmodule.Env(), "GOOS="+goos)
			if out, err := vet.CombinedOutput(); err != nil {
				t.Errorf("GOOS=%s go vet -tags=%s: %v\n%s", goos, tags, err, out)
			}
		}
	}
}
