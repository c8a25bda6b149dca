package ratelimit_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rlgen/rlgen"

// layers says what each package may import, tests aside: packages of this module by their path in it, others by a
// prefix of theirs. The standard library is open to all.
//
//	cmd/rlgen ──► gen ──► rules ◄── store ◄── memstore ◄── ratelimit ◄── leaves
var layers = map[string][]string{
	"rules":                            {},
	"rules/overridefile":               {"rules", "go.yaml.in/yaml/v4"},
	"gen":                              {"rules", "golang.org/x/tools"},
	"cmd/rlgen":                        {"gen", "rules", "rules/overridefile", "cmd/rlgen/internal/traffic", "cmd/rlgen/internal/simulation", "cmd/rlgen/internal/report", "cmd/rlgen/internal/live", "ratelimit", "ratelimit/store", "github.com/rogpeppe/go-internal/diff"},
	"cmd/rlgen/internal/traffic":       {"rules"},
	"cmd/rlgen/internal/live":          {"rules", "rules/overridefile", "ratelimit", "ratelimit/lock/redislock", "ratelimit/override/redisoverride", "ratelimit/redisstore", "ratelimit/redisurl", "github.com/redis/go-redis/v9"},
	"cmd/rlgen/internal/simulation":    {"rules", "ratelimit/store", "ratelimit/memstore", "cmd/rlgen/internal/traffic"},
	"cmd/rlgen/internal/report":        {"rules", "cmd/rlgen/internal/traffic", "cmd/rlgen/internal/simulation"},
	"ratelimit/store":                  {"rules"},
	"ratelimit/memstore":               {"rules", "ratelimit/store"},
	"ratelimit":                        {"rules", "ratelimit/store", "ratelimit/memstore", "ratelimit/lock", "ratelimit/internal/denycache", "ratelimit/internal/prefetch"},
	"ratelimit/override":               {"rules", "rules/overridefile", "ratelimit"},
	"ratelimit/override/redisoverride": {"rules", "ratelimit/override", "github.com/redis/go-redis/v9"},
	"ratelimit/internal/denycache":     {"ratelimit/store"},
	"ratelimit/internal/prefetch":      {"ratelimit/store"},
	"ratelimit/storetest":              {"rules", "ratelimit/store", "testdata/suite", "testdata/traces", "github.com/google/go-cmp", "pgregory.net/rapid"},
	"testdata/traces":                  {},
	"ratelimit/redisstore":             {"rules", "ratelimit/store", "ratelimit/internal/rediscall", "github.com/redis/go-redis/v9"},
	"ratelimit/redisurl":               {"github.com/redis/go-redis/v9"},
	"ratelimit/internal/rediscall":     {"ratelimit/store", "github.com/redis/go-redis/v9", "github.com/sony/gobreaker/v2"},
	"ratelimit/internal/due":           {},
	"ratelimit/internal/outofstep":     {},
	"ratelimit/internal/page":          {},
	"ratelimit/lock":                   {"ratelimit/store", "ratelimit/internal/due"},
	"ratelimit/lock/redislock":         {"ratelimit/lock", "ratelimit/store", "ratelimit/internal/due", "ratelimit/internal/rediscall", "github.com/redis/go-redis/v9"},
	"ratelimit/lock/locktest":          {"ratelimit/lock", "ratelimit/store", "pgregory.net/rapid"},
	"ratelimit/embedded":               {"github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9"},
	"ratelimit/clientaddr":             {},
	"ratelimit/httplimit":              {"rules", "ratelimit", "ratelimit/store", "ratelimit/clientaddr"},
	"ratelimit/dashboard":              {"rules", "ratelimit", "ratelimit/store", "ratelimit/override/redisoverride", "ratelimit/internal/rediscall", "github.com/redis/go-redis/v9"},
	"ratelimit/ratelimittest":          {"rules", "ratelimit", "ratelimit/store", "ratelimit/memstore", "ratelimit/lock"},
	"ratelimit/ratelimitfx":            {"rules", "ratelimit", "ratelimit/override", "ratelimit/store", "ratelimit/memstore", "ratelimit/redisstore", "ratelimit/lock", "ratelimit/lock/redislock", "ratelimit/embedded", "github.com/redis/go-redis/v9", "go.uber.org/fx"},
	"ratelimit/ratelimitwire":          {"ratelimit", "ratelimit/store", "ratelimit/redisstore", "ratelimit/lock", "ratelimit/lock/redislock", "github.com/redis/go-redis/v9", "github.com/google/wire"},
	"ratelimit/internal/picture":       {"rules", "ratelimit/store", "ratelimit/memstore"},
	"ratelimit/storetest/redistest":    {"testdata/suite", "github.com/redis/go-redis/v9"},

	// Modules of their own.
	"ratelimit/connectlimit":      {"ratelimit", "ratelimit/store", "ratelimit/clientaddr", "connectrpc.com/connect", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf"},
	"ratelimit/dashboard/browser": {},
	"ratelimit/grpclimit":         {"ratelimit", "ratelimit/store", "ratelimit/clientaddr", "google.golang.org/grpc", "google.golang.org/genproto/googleapis/rpc", "google.golang.org/protobuf"},
	"ratelimit/otellimit":         {"rules", "ratelimit", "ratelimit/store", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace", "go.opentelemetry.io/otel/attribute"},
}

func TestImports(t *testing.T) {
	for _, pkg := range list(t, "work") {
		name, ok := strings.CutPrefix(pkg.ImportPath, module+"/")
		if !ok || strings.HasPrefix(name, "examples/") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			allowed, ok := layers[name]
			if !ok {
				t.Fatalf("package %s has no line in layers, want one that says what it may import", name)
			}
			for _, imported := range pkg.Imports {
				if !permits(allowed, imported) {
					t.Errorf("%s imports %s, want nothing but the standard library and %q", name, imported, allowed)
				}
			}
		})
	}
}

// TestImportsOfGeneratedCode holds that a service which wires by hand is built without Redis, containers or tools.
func TestImportsOfGeneratedCode(t *testing.T) {
	for _, pkg := range list(t, "-deps", "./ratelimit") {
		if !pkg.Standard && !strings.HasPrefix(pkg.ImportPath, module+"/") {
			t.Errorf("ratelimit depends on %s, want the standard library and this module only", pkg.ImportPath)
		}
	}
}

type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Imports,Standard"}, args...)...)
	cmd.Dir = ".."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func permits(allowed []string, imported string) bool {
	if imported == "C" || imported == "unsafe" {
		return false
	}
	name, own := strings.CutPrefix(imported, module+"/")
	if own {
		return slices.Contains(allowed, name)
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(allowed, func(prefix string) bool {
		return imported == prefix || strings.HasPrefix(imported, prefix+"/")
	})
}
