package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/rules"
)

// Exit codes.
const (
	exitOK       = 0
	exitFindings = 1
	exitUsage    = 2
)

// command is one run of the program.
type command struct {
	stdout, stderr io.Writer
}

// run runs the command that the arguments name, and returns the exit code.
func (c *command) run(ctx context.Context, args []string) int {
	if len(args) > 0 {
		switch args[0] {
		case "check":
			return c.check(ctx, args[1:])
		case "vet":
			return c.vet(ctx, args[1:])
		case "list":
			return c.list(ctx, args[1:])
		case "simulate":
			return c.simulate(ctx, args[1:])
		case "help", "-help", "--help":
			return c.help(args[1:])
		case "version", "-version", "--version":
			return c.version(args[1:])
		case "gen", "generate":
			if !isDirectory(args[0]) {
				fmt.Fprintf(c.stderr, "rlgen: unknown command %q; rlgen without a command generates: rlgen ./...\n", args[0])
				return exitUsage
			}
		}
		if _, ok := operations[args[0]]; ok {
			return c.operate(ctx, args[0], args[1:])
		}
		if near := rules.Suggest(args[0], commands()); near != "" && !isDirectory(args[0]) {
			fmt.Fprintf(c.stderr, "rlgen: unknown command %q; did you mean %q? A package is written with its path, ./%[1]s\n", args[0], near)
			return exitUsage
		}
	}
	return c.generate(ctx, args)
}

// commands are the names of all commands.
func commands() []string {
	return append([]string{"check", "vet", "list", "simulate", "help", "version"}, slices.Sorted(maps.Keys(operations))...)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// flags are the flags of the commands that load packages.
type flags struct {
	*flag.FlagSet
	di, tags string
	json     bool
}

func (c *command) flags(name, synopsis string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.SetOutput(c.stderr)
	f.StringVar(&f.tags, "tags", "", "build `tags`, as go build takes them")
	f.Usage = func() {
		fmt.Fprintf(c.stderr, "usage: %s\n\n", synopsis)
		f.PrintDefaults()
		fmt.Fprint(c.stderr, "\nrlgen help says more.\n")
	}
	return f
}

// withDI adds the flag -di, whose value is otherwise if it is not given.
func (f *flags) withDI(otherwise, usage string) *flags {
	f.StringVar(&f.di, "di", otherwise, "dependency injection `files`: fx, wire, fx,wire or none"+usage)
	return f
}

// parse returns the configuration that the arguments make, and the exit code where the run ends here.
func (c *command) parse(f *flags, args []string) (cfg gen.Config, code int, ok bool) {
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return cfg, exitOK, false
	case err != nil:
		return cfg, exitUsage, false
	}
	for _, arg := range f.Args() {
		if strings.HasPrefix(arg, "-") {
			fmt.Fprintf(c.stderr, "rlgen: found %q behind the packages, want flags before them\n", arg)
			return cfg, exitUsage, false
		}
	}
	cfg.DI.Found = f.di == ""
	if f.di != "" {
		if cfg.DI, ok = gen.ParseDI(f.di); !ok {
			fmt.Fprintf(c.stderr, "rlgen: -di=%s, want fx, wire, fx,wire or none\n", f.di)
			return cfg, exitUsage, false
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return cfg, c.fail(err), false
	}
	cfg.Dir = dir
	cfg.Patterns = f.Args()
	if f.tags != "" {
		cfg.BuildFlags = []string{"-tags=" + f.tags}
	}
	return cfg, exitOK, true
}

func (c *command) fail(err error) int {
	fmt.Fprintf(c.stderr, "rlgen: %v\n", err)
	return exitFindings
}

// load runs the generator and prints its findings.
func (c *command) load(ctx context.Context, cfg gen.Config) (*gen.Result, int) {
	r, err := gen.Run(ctx, cfg)
	if err != nil {
		return nil, c.fail(err)
	}
	for _, f := range r.Findings {
		fmt.Fprintln(c.stderr, f.Text(cfg.Dir))
	}
	if r.Failed() {
		return r, exitFindings
	}
	return r, exitOK
}

func (c *command) generate(ctx context.Context, args []string) int {
	f := c.flags("rlgen", "rlgen [flags] [packages]").withDI("fx", "")
	cfg, code, ok := c.parse(f, args)
	if !ok {
		return code
	}
	done := "removed"
	if os.Getenv("GOFILE") != "" && os.Getenv("GOLINE") != "" { // as go generate sets them
		cfg.Empty, done = true, "emptied"
	}
	r, code := c.load(ctx, cfg)
	if code != exitOK {
		return code
	}
	if err := r.Commit(); err != nil {
		return c.fail(err)
	}
	for _, path := range r.Obsolete {
		removed := gen.Finding{Message: done + ": no directive makes the file any longer"}
		removed.Pos.Filename = path
		fmt.Fprintln(c.stdout, removed.Text(cfg.Dir))
	}
	return exitOK
}

// check prints findings and stale files.
func (c *command) check(ctx context.Context, args []string) int {
	f := c.flags("rlgen check", "rlgen check [flags] [packages]").withDI("", " (default: those that stand there)")
	diff := f.Bool("diff", false, "print what rlgen would change, as a unified diff")
	overrides := f.withOverrides("check a `file` of overrides against the packages' limits")
	cfg, code, ok := c.parse(f, args)
	if !ok {
		return code
	}
	r, code := c.load(ctx, cfg)
	if code != exitOK {
		return code
	}
	_, code = c.resolve(ctx, overrides, r.Methods)
	for _, path := range r.Stale() {
		stale := gen.Finding{Message: staleMessage(r, path)}
		stale.Pos.Filename = path
		fmt.Fprintln(c.stderr, stale.Text(cfg.Dir))
		code = exitFindings
		if !*diff {
			continue
		}
		text, err := unified(r, cfg.Dir, path)
		if err != nil {
			return c.fail(err)
		}
		c.stdout.Write(text)
	}
	return code
}

// staleMessage says what is wrong with a stale file.
func staleMessage(r *gen.Result, path string) string {
	if slices.Contains(r.Obsolete, path) {
		return "no directive makes the file any longer; run go generate"
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "the file is missing; run go generate"
	}
	return "the file is not what its source makes now; run go generate"
}

func (c *command) version(args []string) int {
	if len(args) > 0 {
		fmt.Fprintln(c.stderr, "usage: rlgen version")
		return exitUsage
	}
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	fmt.Fprintln(c.stdout, "rlgen", version)
	return exitOK
}
