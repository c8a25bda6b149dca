package gen_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

// hashed is a package that the cases of TestHash change.
const hashed = `package orders

import (
	"context"
	"fmt"
)

type Base interface {
	Get(ctx context.Context, id string) (fmt.Stringer, error)
}

// Orders takes orders.
type Orders interface {
	Base
	// Create places one order.
	//
	//ratelimit:key 10,1s by=req.ID
	Create(ctx context.Context, req *Request) error
	Close() error
}

type Request struct{ ID string }

func NewOrders() Orders { return nil }

type Store struct{}

//ratelimit:user 10,1s
func (s *Store) Put(ctx context.Context, key string) error { return nil }

func (s *Store) Drop(key string) {}
`

// TestHash changes a package and asks which of its generated files tell so by their hash. Each test
// has a package of its own, and all are generated in two runs, before and after the change.
func TestHash(t *testing.T) {
	t.Parallel()
	const wrappers, both = "orders_ratelimit.go", "orders_ratelimit.go ratelimit_fx.go"
	tests := []struct {
		name, old, new string
		want           string // the files whose hash changes
	}{
		{"remark", "// Create places one order.", "// Create places orders.\n\t// Many of them.", ""},
		{"blank lines", "type Request", "\n\n\n\ntype Request", ""},
		{"imports in another order", "\"context\"\n\t\"fmt\"", "\"fmt\"\n\t\"context\"", ""},
		{"another import", "\"fmt\"", "\"fmt\"\n\t_ \"os\"", ""},
		{"type moved", hashed[strings.Index(hashed, "type Store"):], "type Other int\n\n" + hashed[strings.Index(hashed, "//ratelimit:user"):] + "\ntype Store struct{}\n", ""},
		{"method gone", "\tClose() error\n}", "}", wrappers},
		{"method of an interface in another place", "\tBase\n", "\tClose() error\n\tBase\n", ""},
		{"directive spelt in another way", "by=req.ID", `"by=req.ID"`, ""},
		{"function body", "Drop(key string) {}", "Drop(key string) { panic(key) }", ""},
		{"method that is not wrapped", "Drop(key string) {}", "Drop(key, other string) {}", ""},
		{"count", "10,1s by", "11,1s by", wrappers},
		{"option", "by=req.ID", "by=req.ID onfail=open", wrappers},
		{"directive gone", "//ratelimit:user 10,1s\n", "\n", both},
		{"directive of a type", "// Orders takes orders.\n", "// Orders takes orders.\n//\n//ratelimit:global 5,1s\n", both},
		{"signature", "req *Request)", "req *Request, n int)", wrappers},
		{"name of a parameter", "key string) error", "name string) error", wrappers},
		{"signature of an embedded method", "(fmt.Stringer, error)", "(string, error)", wrappers},
		{"type of an expression", "struct{ ID string }", "struct{ ID int }", wrappers},
		{"constructor", "NewOrders()", "NewOrders(dsn string)", both},
		{"receiver", "func (s *Store)", "func (s Store)", wrappers},
		{"name of a wrapper", "// Orders takes orders.\n", "//ratelimit:wrapper Limited\n", both},
	}
	dir := testmodule.New(t)
	writeAll := func(text func(i int) string) {
		for i := range tests {
			own := strings.Replace(text(i), "package orders", fmt.Sprintf("package orders%d", i), 1)
			write(t, filepath.Join(dir, strconv.Itoa(i), "orders.go"), []byte(own))
		}
	}
	writeAll(func(int) string { return hashed })
	before := hashes(t, dir)
	writeAll(func(i int) string {
		test := tests[i]
		text := strings.ReplaceAll(hashed, test.old, test.new)
		if test.name == "method of an interface in another place" {
			text = strings.Replace(text, "error\n\tClose() error\n}", "error\n}", 1)
		}
		if text == hashed {
			t.Fatalf("%s: the package has no %q", test.name, test.old)
		}
		return text
	})
	after := hashes(t, dir)
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before, after := before[strconv.Itoa(i)], after[strconv.Itoa(i)]
			if len(before) != 2 {
				t.Errorf("%d files are generated, want 2", len(before))
			}
			var changed []string
			for _, name := range slices.Sorted(maps.Keys(before)) {
				if before[name] != after[name] {
					changed = append(changed, name)
				}
			}
			if got := strings.Join(changed, " "); got != test.want {
				t.Errorf("%q -> %q changes the hashes of %q, want %q", test.old, test.new, got, test.want)
			}
		})
	}
}

// hashes generates, and returns the hash lines of what is generated, by directory and name.
func hashes(t *testing.T, module string) map[string]map[string]string {
	t.Helper()
	r, err := gen.Run(t.Context(), gen.Config{Dir: module, Patterns: []string{"./..."}, Env: testmodule.Env(), DI: gen.DI{Fx: true}})
	if err != nil || r.Failed() {
		t.Fatalf("Run: %v, %v", r.Findings, err)
	}
	lines := map[string]map[string]string{}
	for _, f := range r.Files {
		dir, name := filepath.Base(filepath.Dir(f.Path)), filepath.Base(f.Path)
		if lines[dir] == nil {
			lines[dir] = map[string]string{}
		}
		for line := range strings.Lines(string(f.Text)) {
			if hash, ok := strings.CutPrefix(line, "//rlgen:hash "); ok {
				lines[dir][name] = strings.TrimSpace(hash)
			}
		}
		if lines[dir][name] == "" {
			t.Fatalf("%s has no hash", f.Path)
		}
	}
	return lines
}
