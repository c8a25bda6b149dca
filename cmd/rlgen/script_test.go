package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rlgen": main})
}

// TestScript runs the scripts of testdata/script, each in a module example.com/m that requires this one. Besides
// testscript's own commands there are "age file", which makes a file old, "aged file", which asks whether it
// still is, and "crlf file", which gives a file the line ends of Windows.
func TestScript(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	goEnv := goEnvironment(t)
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(root, "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			for name, value := range goEnv {
				env.Setenv(name, value)
			}
			return writeModule(root, env.WorkDir)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"age": func(ts *testscript.TestScript, neg bool, args []string) {
				for _, file := range args {
					ts.Check(os.Chtimes(ts.MkAbs(file), old, old))
				}
			},
			"crlf": func(ts *testscript.TestScript, neg bool, args []string) {
				for _, file := range args {
					text := strings.ReplaceAll(ts.ReadFile(file), "\n", "\r\n")
					ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o666))
				}
			},
			"aged": func(ts *testscript.TestScript, neg bool, args []string) {
				for _, file := range args {
					info, err := os.Stat(ts.MkAbs(file))
					ts.Check(err)
					if info.ModTime().Equal(old) == neg {
						ts.Fatalf("%s is of %v", file, info.ModTime())
					}
				}
			},
		},
	})
}

// goEnvironment returns what the go command needs to know to work without a home directory.
func goEnvironment(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GONOSUMDB", "GOSUMDB").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	if err := json.Unmarshal(out, &env); err != nil {
		t.Fatal(err)
	}
	env["GOFLAGS"] = "-mod=mod"
	env["GOWORK"] = "off"
	return env
}

// writeModule writes the go.mod and go.sum of a module that requires this one and all that it requires.
func writeModule(root, dir string) error {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return err
	}
	text := strings.Replace(string(mod), "module github.com/rlgen/rlgen", "module example.com/m", 1) +
		"\nrequire github.com/rlgen/rlgen v0.0.0\nreplace github.com/rlgen/rlgen => " + root + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o666); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o666)
}
