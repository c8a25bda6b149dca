package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rlgen/rlgen/testdata/suite"
	"github.com/rlgen/rlgen/testdata/testmodule"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"rlgen": main})
}

// TestScript runs the scripts of testdata/script with the commands of scriptCommands.
func TestScript(t *testing.T) { testscript.Run(t, scriptParams(t, "script")) }

// scriptParams returns the parameters of the scripts in a directory of testdata. Each script runs in a
// module example.com/m. RLGEN is the path of the program. The condition [long] holds in the long suite, which
// alone runs go vet for other systems: vet starts rlgen for every package that they have.
func scriptParams(t *testing.T, dir string) testscript.Params {
	t.Helper()
	program, err := exec.LookPath("rlgen")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Dir:                 filepath.Join(testmodule.Root(), "testdata", dir),
		WorkdirRoot:         testmodule.Dir(t),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			vars, err := testmodule.ScriptEnv()
			if err != nil {
				return err
			}
			for name, value := range vars {
				env.Setenv(name, value)
			}
			env.Setenv("RLGEN", program)
			return testmodule.Write(env.WorkDir)
		},
		Cmds: maps.Clone(scriptCommands),
		Condition: func(name string) (bool, error) {
			if name == "long" {
				return suite.Long(), nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	}
}

// scriptCommands are the commands of scripts besides those of testscript:
//
//	age file...                      makes files old
//	aged file...                     fails if a file is not as old as age made it
//	crlf file...                     gives files the line ends of Windows
//	exits code program [args]        runs a program, and fails if it does not exit with the code
//	glob pattern                     fails if no file matches
//	gzip file                        writes file.gz
//	head n from to                   copies the first n bytes of a file; if n < 0, all but the last -n
//	replace from to pattern text     copies a file, with text in place of what matches
var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"age": func(ts *testscript.TestScript, _ bool, args []string) {
		for _, file := range args {
			ts.Check(os.Chtimes(ts.MkAbs(file), longAgo, longAgo))
		}
	},
	"aged": func(ts *testscript.TestScript, neg bool, args []string) {
		for _, file := range args {
			info, err := os.Stat(ts.MkAbs(file))
			ts.Check(err)
			if info.ModTime().Equal(longAgo) == neg {
				ts.Fatalf("%s is of %v", file, info.ModTime())
			}
		}
	},
	"crlf": func(ts *testscript.TestScript, _ bool, args []string) {
		for _, file := range args {
			writeFile(ts, file, strings.ReplaceAll(ts.ReadFile(file), "\n", "\r\n"))
		}
	},
	"exits": func(ts *testscript.TestScript, _ bool, args []string) {
		code := 0
		err := ts.Exec(args[1], args[2:]...)
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else {
			ts.Check(err)
		}
		if strconv.Itoa(code) != args[0] {
			ts.Fatalf("exit code %d, want %s", code, args[0])
		}
	},
	"glob": func(ts *testscript.TestScript, neg bool, args []string) {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		if (len(found) > 0) == neg {
			ts.Fatalf("%s matches %q", args[0], found)
		}
	},
	"gzip": func(ts *testscript.TestScript, _ bool, args []string) {
		var packed strings.Builder
		w := gzip.NewWriter(&packed)
		_, err := w.Write([]byte(ts.ReadFile(args[0])))
		ts.Check(errors.Join(err, w.Close()))
		writeFile(ts, args[0]+".gz", packed.String())
	},
	"head": func(ts *testscript.TestScript, _ bool, args []string) {
		n, err := strconv.Atoi(args[0])
		ts.Check(err)
		text := ts.ReadFile(args[1])
		if n < 0 {
			n += len(text)
		}
		writeFile(ts, args[2], text[:n])
	},
	"replace": func(ts *testscript.TestScript, _ bool, args []string) {
		pattern, err := regexp.Compile(args[2])
		ts.Check(err)
		writeFile(ts, args[1], pattern.ReplaceAllString(ts.ReadFile(args[0]), args[3]))
	},
}

// longAgo is the time of files that age made old.
var longAgo = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

func writeFile(ts *testscript.TestScript, name, text string) {
	ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o666))
}
