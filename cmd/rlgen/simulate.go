package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/report"
	"github.com/rlgen/rlgen/cmd/rlgen/internal/simulation"
	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/rules"
)

// simulating is the flags of simulate, and what they ask for.
type simulating struct {
	*flag.FlagSet
	limits, files []string

	method, tags, plan string
	rivals             []string // -vs

	made traffic.Made
	log  traffic.Log

	json      bool
	svg, html string
	width     int
}

func (c *command) simulateFlags() *simulating {
	s := &simulating{FlagSet: flag.NewFlagSet("rlgen simulate", flag.ContinueOnError)}
	s.SetOutput(c.stderr)
	s.StringVar(&s.method, "method", "", "the limits of a `method` of the code, such as orders.Orders.Create")
	s.StringVar(&s.tags, "tags", "", "build `tags`, as go build takes them, to find the method by")
	s.StringVar(&s.plan, "plan", "", "calls are of callers on a `plan`, by whose limits they are decided")
	s.Func("vs", "`limits` to compare with, with ; between them; may be given several times", func(text string) error {
		s.rivals = append(s.rivals, text)
		return nil
	})
	s.made = traffic.Made{Burst: 1, For: 10 * time.Minute, Shape: traffic.Poisson, On: 10 * time.Second, Off: 50 * time.Second, IDs: 1, Seed: 1, Start: time.Unix(0, 0)}
	s.Float64Var(&s.made.Rate, "rate", 0, "make traffic: `calls` in a second, of all ids together")
	s.IntVar(&s.made.Burst, "burst", s.made.Burst, "made calls that come at once each time")
	s.DurationVar(&s.made.For, "for", s.made.For, "how long made traffic lasts")
	s.Func("shape", "made traffic is "+strings.Join(traffic.Shapes, ", ")+" (default "+string(s.made.Shape)+")", word(traffic.Shapes, func(w string) { s.made.Shape = traffic.Shape(w) }))
	s.DurationVar(&s.made.On, "on", s.made.On, "how long traffic of the shape onoff is on")
	s.DurationVar(&s.made.Off, "off", s.made.Off, "how long it is off")
	s.IntVar(&s.made.IDs, "ids", s.made.IDs, "users of made traffic, and as many addresses")
	s.Float64Var(&s.made.Zipf, "zipf", 0, "the n-th id calls n^-`exponent` times as often as the first; 0 for all equally often")
	s.Uint64Var(&s.made.Seed, "seed", s.made.Seed, "made traffic of the same seed is the same")
	s.log = traffic.Log{Format: traffic.Auto, Columns: map[string]string{}, Within: 10 * time.Second}
	s.Func("format", "lines of logs are "+strings.Join(traffic.Formats, ", ")+" (default auto)", word(traffic.Formats, func(w string) { s.log.Format = traffic.Format(w) }))
	s.Func("columns", "`names` of CSV's columns or JSON's fields, such as time=ts,address=client.ip,user=uid", s.columns)
	s.Func("match", "only calls whose method matches the `regexp`, such as '^POST /orders'", func(text string) (err error) {
		s.log.Match, err = regexp.Compile(text)
		return err
	})
	s.DurationVar(&s.log.Within, "within", s.log.Within, "how much earlier than a line before it a line may be")
	s.BoolVar(&s.log.Strict, "strict", false, "end at the first line that cannot be read")
	s.BoolVar(&s.json, "json", false, "print JSON, as rlgen help simulate says")
	s.StringVar(&s.svg, "svg", "", "write a picture to `file`")
	s.StringVar(&s.html, "html", "", "write a page to `file`")
	s.IntVar(&s.width, "width", width, "columns of the text")
	s.Usage = func() {
		fmt.Fprint(c.stderr, "usage: rlgen simulate [flags] [\"limit\" ...] [log ...]\n\n")
		s.PrintDefaults()
		fmt.Fprint(c.stderr, "\nrlgen help simulate says more.\n")
	}
	return s
}

// word takes one of some words.
func word(words []string, set func(string)) func(string) error {
	return func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("want %s", strings.Join(words, ", "))
		}
		set(text)
		return nil
	}
}

func (s *simulating) columns(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		what, name, ok := strings.Cut(pair, "=")
		if !ok || !slices.Contains(traffic.Columns, what) || name == "" {
			return fmt.Errorf("found %q, want what=name, what being %s", pair, strings.Join(traffic.Columns, ", "))
		}
		s.log.Columns[what] = name
	}
	return nil
}

// simulate decides traffic by limits, and says what became of it.
func (c *command) simulate(ctx context.Context, args []string) int {
	s := c.simulateFlags()
	switch err := s.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	if err := s.arguments(); err != nil {
		fmt.Fprintf(c.stderr, "rlgen: %v\n", err)
		return exitUsage
	}
	candidates, err := c.candidates(ctx, s)
	if wrong := (*wrongLimit)(nil); errors.As(err, &wrong) {
		fmt.Fprintf(c.stderr, "rlgen: %v\n", err)
		return exitUsage
	}
	if err != nil {
		return c.fail(err)
	}
	sim, err := simulation.New(candidates...)
	if err != nil {
		return c.fail(err)
	}
	defer collectLess()()
	r := &report.Report{Simulation: sim, Bytes: bytesPerID}
	if err := c.feed(s, r); err != nil {
		return c.fail(err)
	}
	if err := c.write(s, r); err != nil {
		return c.fail(err)
	}
	return exitOK
}

// collectLess has garbage collected half as often as else, unless GOGC says how often, and returns what undoes it. Much of what a simulation allocates lives for
// two windows, and is looked at by each collection.
func collectLess() (undo func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(200)
	return func() { debug.SetGCPercent(before) }
}

// arguments tells limits from files, and finds what does not go together.
func (s *simulating) arguments() error {
	for _, arg := range s.Args() {
		switch {
		case arg != "-" && strings.HasPrefix(arg, "-"):
			return fmt.Errorf("found %q behind the limits and logs, want flags before them", arg)
		case strings.Contains(arg, " "):
			s.limits = append(s.limits, arg)
		default:
			s.files = append(s.files, arg)
		}
	}
	switch {
	case s.method == "" && len(s.limits) == 0 && len(s.rivals) == 0:
		return errors.New(`found no limits, want some, such as "user 10,1s 100,1m", or -method`)
	case s.method != "" && len(s.limits) > 0:
		return errors.New("found -method and limits, want one of them; what to compare with is -vs")
	case len(s.files) > 0 && s.made.Rate != 0:
		return errors.New("found -rate and a log, want one of them")
	case len(s.files) == 0 && s.made.Rate == 0:
		return errors.New("found no traffic, want the file of a log, - for standard input, or -rate to make some")
	case s.width < 40:
		return fmt.Errorf("found -width=%d, want 40 or more", s.width)
	case s.log.Within < 0:
		return fmt.Errorf("found -within=%v, want 0s or more", s.log.Within)
	case s.made.Rate != 0:
		if err := s.made.Check(); err != nil {
			return err
		}
		return s.none("-rate makes traffic without a log", "format", "columns", "match", "within", "strict")
	}
	return s.none("a log is read, and -rate makes none", "burst", "for", "shape", "on", "off", "ids", "zipf", "seed")
}

// none says which of some flags is set, all of which are of no use.
func (s *simulating) none(why string, flags ...string) (err error) {
	s.Visit(func(f *flag.Flag) {
		if slices.Contains(flags, f.Name) {
			err = fmt.Errorf("found -%s where %s, want one of them", f.Name, why)
		}
	})
	return err
}

// candidates are the limits that are asked for.
func (c *command) candidates(ctx context.Context, s *simulating) ([]simulation.Candidate, error) {
	var list []simulation.Candidate
	if s.method != "" {
		own, err := c.methodCandidate(ctx, s)
		if err != nil {
			return nil, err
		}
		list = append(list, own)
	}
	texts := s.rivals
	if len(s.limits) > 0 {
		texts = append([]string{strings.Join(s.limits, ";")}, texts...)
	}
	for _, text := range texts {
		var directives []string
		for line := range strings.SplitSeq(text, ";") {
			if line = strings.TrimSpace(line); line != "" {
				directives = append(directives, strings.TrimPrefix(line, rules.Namespace))
			}
		}
		candidate, err := simulation.Parse(strings.Join(directives, "; "), s.plan, directives...)
		if err != nil {
			return nil, &wrongLimit{err}
		}
		list = append(list, candidate)
	}
	return list, nil
}

// wrongLimit is what is wrong with limits of the command line.
type wrongLimit struct{ error }

// methodCandidate is the limits of a method of the code.
func (c *command) methodCandidate(ctx context.Context, s *simulating) (simulation.Candidate, error) {
	dir, err := os.Getwd()
	if err != nil {
		return simulation.Candidate{}, err
	}
	cfg := gen.Config{Dir: dir, Patterns: []string{"./..."}}
	if s.tags != "" {
		cfg.BuildFlags = []string{"-tags=" + s.tags}
	}
	r, code := c.load(ctx, cfg)
	if code != exitOK {
		return simulation.Candidate{}, errors.New("the directives have findings, want none")
	}
	policies := make([]*rules.Policy, len(r.Methods))
	for i := range r.Methods {
		policies[i] = r.Methods[i].Policy
	}
	p, err := rules.FindMethod(policies, s.method)
	if err != nil {
		return simulation.Candidate{}, err
	}
	return simulation.Of(p.Type+"."+p.Method, s.plan, p)
}

// feed runs the traffic through the limits.
func (c *command) feed(s *simulating, r *report.Report) error {
	if s.made.Rate != 0 {
		source, err := traffic.Make(s.made)
		if err != nil {
			return err
		}
		r.Source = describeMade(&s.made)
		return r.Run(source, nil)
	}
	var files []traffic.File
	size := int64(0)
	for _, name := range s.files {
		in, err := c.open(name, &size)
		if err != nil {
			return err
		}
		defer in.Close()
		files = append(files, traffic.File{Name: name, Reader: in})
	}
	s.log.Names = append([]string{}, r.Counts()...)
	source, err := s.log.Read(files...)
	if err != nil {
		return err
	}
	r.Source = strings.Join(s.files, ", ")
	progress := c.progress(source, size)
	err = r.Run(source, progress.show)
	progress.clear()
	r.Log = &source.Stats
	return err
}

// open opens a log, and adds its size to size, which becomes 0 for good where a size is not known.
func (c *command) open(name string, size *int64) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	switch info, err := f.Stat(); {
	case err == nil && info.IsDir():
		f.Close()
		return nil, fmt.Errorf("%s is a directory, want the file of a log", name)
	case err == nil && info.Mode().IsRegular():
		*size += info.Size()
	}
	return f, nil
}

func describeMade(m *traffic.Made) string {
	text := fmt.Sprintf("%s traffic, %v calls a second for %v", m.Shape, m.Rate, m.For)
	if m.Shape == traffic.OnOff {
		text += fmt.Sprintf(" while it is on, %v on and %v off", m.On, m.Off)
	}
	if m.Burst > 1 {
		text += fmt.Sprintf(", %d at once", m.Burst)
	}
	text += fmt.Sprintf(", %d ids", m.IDs)
	if m.Zipf > 0 {
		text += fmt.Sprintf(" (Zipf %v)", m.Zipf)
	}
	return text + fmt.Sprintf(", seed %d", m.Seed)
}

// write writes what is asked for.
func (c *command) write(s *simulating, r *report.Report) error {
	for _, out := range []struct {
		file string
		make func() []byte
	}{{s.svg, r.SVG}, {s.html, r.HTML}} {
		if out.file == "" {
			continue
		}
		if err := os.WriteFile(out.file, out.make(), 0o666); err != nil {
			return err
		}
	}
	if s.json {
		return r.JSON(c.stdout)
	}
	return r.Text(c.stdout, s.width)
}
