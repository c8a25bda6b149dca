package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// isTool reports whether the go command calls the program as its -vettool or -fixtool: to ask what it is, which flags it
// has, or to look at one package.
func isTool(args []string) bool {
	if len(args) == 0 {
		return false
	}
	return args[0] == "-V=full" || args[0] == "-flags" || strings.HasSuffix(args[len(args)-1], ".cfg")
}

// vet runs go vet with this program as its tool, so that the findings are cached and look like all others of go vet.
func (c *command) vet(ctx context.Context, args []string) int {
	f := c.flags("rlgen vet", "rlgen vet [flags] [packages]")
	fix := f.Bool("fix", false, "mend what has one sure mend")
	diff := f.Bool("diff", false, "with -fix, print what it would change")
	f.BoolVar(&f.json, "json", false, "print findings and mends as JSON")
	warnings := f.Bool("warnings", true, "report warnings, too")
	cfg, code, ok := c.parse(f, args)
	if !ok {
		return code
	}
	if *diff && !*fix {
		fmt.Fprintln(c.stderr, "rlgen: found -diff alone, want it with -fix: rlgen vet -fix -diff")
		return exitUsage
	}
	self, err := executable()
	if err != nil {
		return c.fail(err)
	}
	vet := []string{"vet", "-vettool=" + self}
	for flag, set := range map[string]bool{"-fix": *fix, "-diff": *diff, "-json": f.json, "-ratelimit.warnings=false": !*warnings} {
		if set {
			vet = append(vet, flag)
		}
	}
	run := exec.CommandContext(ctx, "go", append(append(vet, cfg.BuildFlags...), cfg.Patterns...)...)
	run.Stdout, run.Stderr = c.stdout, c.stderr
	var exit *exec.ExitError
	switch err := run.Run(); {
	case errors.As(err, &exit):
		return exitFindings
	case err != nil:
		return c.fail(err)
	}
	return exitOK
}

// executable returns the path of this program by the name that it was called by, which a link may have given it.
func executable() (string, error) {
	if path, err := exec.LookPath(os.Args[0]); err == nil {
		return filepath.Abs(path)
	}
	return os.Executable()
}
