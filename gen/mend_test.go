package gen_test

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

// TestMends applies the mends of a package's findings, and generates for what comes of it without a finding. The lines
// stand in an interface, before a method of each.
func TestMends(t *testing.T) {
	t.Parallel()
	dir := testmodule.New(t)
	cases := []struct{ name, lines, want string }{
		{"block", "\t/* ratelimit:user 10,1s */", "\t//ratelimit:user 10,1s"},
		{"second", "\t//ratelimit:user 10,1s //ratelimit:ip 5,1s", "\t//ratelimit:ip 5,1s\n\t//ratelimit:user 10,1s"},
		{"remark", "\t//ratelimit:user 10,1s # why", "\t// why\n\t//\n\t//ratelimit:user 10,1s"},
		{"both", "\t//ratelimit:user 10,1sec onfial=open // why", "\t// why\n\t//\n\t//ratelimit:user 10,1s onfail=open"},
		{"quotes", "\t//ratelimit:user 10,1s when=“ctx != nil”", "\t//ratelimit:user 10,1s when=\"ctx != nil\""},
		{"prose", "\t// Do does. //ratelimit:user 10,1s", "\t// Do does.\n\t//\n\t//ratelimit:user 10,1s"},
		{"returns", "\t//ratelimit:user 10,1min\r", "\t//ratelimit:user 10,1m\r"},
		{"indented", "\t  //ratelimit:user 10,1s // why", "\t  // why\n\t  //\n\t  //ratelimit:user 10,1s"},
		{"twice", "\t//ratelimit:user 10,1s\n\t//ratelimit:user 10,1s", "\t//ratelimit:user 10,1s"},
		{"detached", "\t//ratelimit:user 10,1s\n", "\t//ratelimit:user 10,1s"},
	}
	text := func(name, lines string) string {
		return "package " + name + "\n\nimport \"context\"\n\ntype " + strings.ToUpper(name[:1]) + name[1:] + " interface {\n" + lines + "\n\tDo(ctx context.Context) error\n}\n"
	}
	for _, c := range cases {
		write(t, filepath.Join(dir, c.name, c.name+".go"), []byte(text(c.name, c.lines)))
	}
	cfg := gen.Config{Dir: dir, Patterns: []string{"./..."}, Env: testmodule.Env()}
	r, err := gen.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Mend == nil {
			t.Errorf("%s has no mend", f.Text(dir))
		}
	}
	mendAll(t, r.Findings)
	for _, c := range cases {
		got, err := os.ReadFile(filepath.Join(dir, c.name, c.name+".go"))
		if err != nil {
			t.Fatal(err)
		}
		if want := text(c.name, c.want); string(got) != want {
			t.Errorf("%q is mended to\n%q, want\n%q", c.lines, got, want)
		}
	}
	if r, err = gen.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		t.Errorf("mended: %s", f.Text(dir))
	}
}

// mendAll makes the changes of all findings, the last first.
func mendAll(t *testing.T, findings []gen.Finding) {
	t.Helper()
	var edits []gen.Edit
	for _, f := range findings {
		if f.Mend != nil {
			edits = append(edits, f.Mend.Edits...)
		}
	}
	slices.SortStableFunc(edits, func(a, b gen.Edit) int {
		return cmp.Or(strings.Compare(a.Filename, b.Filename), cmp.Compare(b.Start, a.Start))
	})
	for _, e := range edits {
		text, err := os.ReadFile(e.Filename)
		if err != nil {
			t.Fatal(err)
		}
		write(t, e.Filename, slices.Concat(text[:e.Start], []byte(e.Text), text[e.End:]))
	}
}
