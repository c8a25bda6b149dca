// Package testmodule makes modules for tests of the generator: example.com/m, which requires this
// module and everything that this module requires.
//
// The modules of a test have the same directory in every run, because the build cache of the go command
// depends on the directory. A run finds what the run before it has compiled.
package testmodule

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Root returns the directory of this module.
func Root() string { return root() }

var root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module github.com/rlgen/rlgen\n") {
			return dir
		}
		if dir == filepath.Dir(dir) {
			panic("testmodule: no directory above this one has the go.mod of github.com/rlgen/rlgen")
		}
		dir = filepath.Dir(dir)
	}
})

// Dir returns an empty directory for t, which is the same in every run, and removes it after the test.
// If another process uses the directory, or a killed process left it, Dir returns another one.
func Dir(t testing.TB) string {
	t.Helper()
	temp, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(Root() + "\x00" + t.Name()))
	for i := range 4 {
		dir := filepath.Join(temp, fmt.Sprintf("rlgen-test-%x-%d", sum[:6], i))
		if os.Mkdir(dir, 0o700) != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		})
		return dir
	}
	return t.TempDir()
}

// New returns the directory of a new module for t.
func New(t testing.TB) string {
	t.Helper()
	dir := Dir(t)
	if err := Write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Write writes the go.mod and go.sum of a module to a directory. First it downloads the modules that they
// name, unless the module cache has them.
func Write(dir string) error {
	if err := download(); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(Root(), "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(Root(), "go.sum"))
	if err != nil {
		return err
	}
	text := strings.Replace(string(mod), "module github.com/rlgen/rlgen", "module example.com/m", 1) +
		"\nrequire github.com/rlgen/rlgen v0.0.0\n" + Replace() + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o666)
}

// download downloads what go test did not need: the modules of tools, and those that only other modules'
// packages import.
var download = sync.OnceValue(func() error { return Download(Root()) })

// Download downloads the modules that the go.mod in a directory names, unless the module cache has them.
func Download(dir string) error {
	cmd := exec.Command("go", "mod", "download")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod download: %w\n%s", err, out)
	}
	return nil
}

// Replace returns the line of a go.mod that replaces this module by its directory.
func Replace() string {
	return "replace github.com/rlgen/rlgen => " + strconv.Quote(filepath.ToSlash(Root()))
}

// Env returns the environment of the go command in a module of this package. The go command does not
// search for modules that may have a missing package.
func Env() []string {
	return append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off")
}

// ScriptEnv returns the part of Env that a script without a home directory needs besides PATH.
func ScriptEnv() (map[string]string, error) { return scriptEnv() }

var scriptEnv = sync.OnceValues(func() (map[string]string, error) {
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPATH", "GONOSUMDB", "GOSUMDB").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	env := map[string]string{}
	if err := json.Unmarshal(out, &env); err != nil {
		return nil, err
	}
	env["GOFLAGS"] = "-mod=mod"
	env["GOWORK"] = "off"
	env["GOPROXY"] = "off"
	return env, nil
})
