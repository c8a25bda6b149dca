// Package readme holds that what the README shows is true: its program is built and run word for word.
package readme

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block of the README.
type block struct {
	language, file, text string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)(?: file=(\\S+))?\n(.*?)^```$")

func readme(t *testing.T) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block{language: m[1], file: m[2], text: m[3]})
	}
	return blocks
}

// program writes the README's files into a new directory, and returns it and the commands to run there.
func program(t *testing.T) (dir string, commands []string) {
	t.Helper()
	dir = t.TempDir()
	for _, b := range readme(t) {
		switch {
		case b.file != "":
			path := filepath.Join(dir, b.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(b.text), 0o644); err != nil {
				t.Fatal(err)
			}
		case b.language == "sh":
			commands = append(commands, strings.Split(strings.TrimSpace(b.text), "\n")...)
		}
	}
	return dir, commands
}

// run runs a command in dir and returns what it printed. The commands of the README need no shell.
func run(t *testing.T, dir, command string) (string, error) {
	t.Helper()
	words := strings.Fields(command)
	return runWords(t, dir, words[0], words[1:]...)
}

// runWords is run for a command whose words may hold blanks.
func runWords(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	// The new module has no go.sum. Without the checksum database the test works offline, once the
	// modules are downloaded.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false", "GOSUMDB=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	t.Logf("$ %s %s\n%s", name, strings.Join(args, " "), &out)
	return out.String(), err
}

func TestProgramOfTheReadme(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, commands := program(t)
	var last string
	for _, command := range commands {
		if last, err = run(t, dir, command); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, last)
		}
		if strings.HasPrefix(command, "go mod init") { // this checkout in place of a released version
			replace := "-replace=github.com/rlgen/rlgen=" + root
			if out, err := runWords(t, dir, "go", "mod", "edit", replace); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	lines := strings.Split(strings.TrimSpace(last), "\n")
	if got, want := lines[len(lines)-1], "denied by Create/user (10,1s)"; got != want {
		t.Errorf("the program's last line is %q, want %q", got, want)
	}
	if n := strings.Count(last, "<nil>"); n != 10 {
		t.Errorf("%d calls were allowed, want 10:\n%s", n, last)
	}

	// The typo that the README shows.
	path := filepath.Join(dir, "orders/orders.go")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("ratelimit:user"), []byte("ratelimit:usr"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, dir, "go generate ./...")
	if err == nil {
		t.Errorf("go generate of a typo passes:\n%s", out)
	}
	shown := false
	for _, b := range readme(t) {
		if strings.HasPrefix(b.text, "orders.go:") {
			shown = true
			if !strings.Contains(out, b.text) {
				t.Errorf("go generate prints\n%s\nwant, as the README says,\n%s", out, b.text)
			}
		}
	}
	if !shown {
		t.Error("the README does not show what a typo prints")
	}
}

// The README's picture of the quickstart is what the quickstart prints.
func TestQuickstartOfTheReadme(t *testing.T) {
	var shown string
	for _, b := range readme(t) {
		if strings.Contains(b.text, "LEFT AFTER THE CALL") {
			shown = b.text
		}
	}
	cmd := exec.Command("go", "run", "./examples/quickstart")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "REDIS_URL=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := steady(string(out)), steady(shown); got != want {
		t.Errorf("quickstart prints\n%s\nwant, as the README says,\n%s", got, want)
	}
}

// steady takes out of the quickstart's output what differs from run to run: waits, and blanks.
func steady(text string) string {
	text = regexp.MustCompile(`retry in \S+`).ReplaceAllString(text, "retry in T")
	text = regexp.MustCompile(`(?m)(^rl:\S+ +\d+) +\S+$`).ReplaceAllString(text, "$1 T")
	return strings.TrimSpace(regexp.MustCompile(` +`).ReplaceAllString(text, " "))
}
