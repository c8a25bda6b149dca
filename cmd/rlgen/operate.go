package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/live"
	"github.com/rlgen/rlgen/gen"
	"github.com/rlgen/rlgen/rules"
)

// operation is a command that looks at what is in Redis, or changes it.
type operation struct {
	synopsis string
	writes   bool
	run      func(o *operating, ctx context.Context) (int, error)
}

// operations are those of a method and its ids, but for override, which is of limits by name.
var operations = map[string]operation{
	"keys":     {"rlgen keys [flags] method id...", false, (*operating).keys},
	"peek":     {"rlgen peek [flags] method id...", false, (*operating).peek},
	"reset":    {"rlgen reset [flags] method id...", true, (*operating).reset},
	"grant":    {"rlgen grant [flags] method id... number", true, (*operating).grant},
	"ban":      {"rlgen ban [flags] method id... duration", true, (*operating).ban},
	"unban":    {"rlgen unban [flags] method id...", true, (*operating).unban},
	"override": {"rlgen override [flags] [list | set name text... | remove name...]", true, (*operating).override},
}

// operating is one operation.
type operating struct {
	*command
	*flag.FlagSet
	session  *live.Session
	synopsis string
	args     []string
	told     []told

	redis, redisFile           string
	packages, tags, limitsFile string
	secretFile, plan           string
	limits                     []string
	json, dry                  bool
	options                    live.Options
}

// redisFlags adds the flags that say which Redis is meant, and which hash of overrides in it.
func redisFlags(f *flag.FlagSet, url, file, key *string) {
	f.StringVar(url, "redis", "", "`URL` of a Redis without a password (default: that of "+live.Environment+")")
	f.StringVar(file, "redis-file", "", "`file` with the URL of a Redis")
	f.StringVar(key, "overrides-key", "", "`key` of the hash of overrides, as redisoverride.WithKey has it (default rl:overrides)")
}

// operate runs an operation, and says nothing of the Redis's passwords.
func (c *command) operate(ctx context.Context, name string, args []string) int {
	of := operations[name]
	c = c.plain()
	o := c.operateFlags(name, of)
	switch err := o.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	if err := o.readArgs(); err != nil {
		return c.failAt(live.Address{}, err)
	}
	at, err := live.Find(o.redis, o.redisFile)
	code := exitOK
	if err == nil {
		err = o.check()
	}
	if err == nil {
		code, err = o.in(ctx, at, of)
	}
	if err != nil {
		return c.failAt(at, err)
	}
	return code
}

// readArgs takes what stands behind the flags. What begins with a dash is a flag at the wrong place, unless it stands behind --.
func (o *operating) readArgs() error {
	for i, arg := range o.FlagSet.Args() {
		switch {
		case arg == "--":
			o.args = append(o.args, o.FlagSet.Args()[i+1:]...)
			return nil
		case strings.HasPrefix(arg, "-"):
			return argument("found %q behind the method, want flags before it", arg)
		}
		o.args = append(o.args, arg)
	}
	return nil
}

// Args are the arguments behind the flags.
func (o *operating) Args() []string { return o.args }

// failAt prints an error without the passwords of an address, and returns the exit code.
func (c *command) failAt(at live.Address, err error) int {
	fmt.Fprintf(c.stderr, "rlgen: %s\n", strings.TrimPrefix(at.Tell(err), live.ErrArgument.Error()+": "))
	if errors.Is(err, live.ErrArgument) {
		return exitUsage
	}
	return exitFindings
}

// check looks at the numbers of flags.
func (o *operating) check() error {
	switch bits := o.options.IPv6Prefix; {
	case o.options.Timeout <= 0:
		return argument("-timeout: found %v, want more than 0, such as 5s", o.options.Timeout)
	case bits < 0 || bits > 128:
		return argument("-ipv6-prefix: found %d, want 1 to 128 bits, as ratelimit.WithIPv6Prefix has them", bits)
	}
	return nil
}

func (c *command) operateFlags(name string, of operation) *operating {
	o := &operating{command: c, FlagSet: flag.NewFlagSet("rlgen "+name, flag.ContinueOnError), synopsis: of.synopsis, told: []told{}}
	o.SetOutput(c.stderr)
	redisFlags(o.FlagSet, &o.redis, &o.redisFile, &o.options.OverridesKey)
	o.DurationVar(&o.options.Timeout, "timeout", live.DefaultTimeout, "how long one question to Redis may take")
	o.StringVar(&o.packages, "packages", "./...", "`packages` of the code whose limits are meant, with spaces between them")
	o.StringVar(&o.tags, "tags", "", "build `tags`, as go build takes them")
	o.StringVar(&o.limitsFile, "limits", "", "`file` that rlgen list -json has printed, in place of the code")
	o.BoolVar(&o.json, "json", false, "print JSON, as rlgen help redis says")
	o.Func("overrides", "`file` of overrides, or redis for the hash; several times in the program's order", func(text string) error {
		o.options.Overrides = append(o.options.Overrides, text)
		return nil
	})
	if of.writes {
		o.BoolVar(&o.dry, "dry-run", false, "say what would be done, and do nothing")
	}
	if o.options.Lenient = name == "override"; !o.options.Lenient {
		o.Func("limit", "the limits of this `name` alone, such as Create/user; several times", func(text string) error {
			o.limits = append(o.limits, text)
			return nil
		})
		o.StringVar(&o.plan, "plan", "", "the `plan` that the id is on (default: the limits of all plans)")
		o.IntVar(&o.options.IPv6Prefix, "ipv6-prefix", 0, "`bits` of IPv6 addresses that count, as ratelimit.WithIPv6Prefix has them (default 64)")
		o.StringVar(&o.secretFile, "hash-secret", "", "`file` with the secret of ratelimit.WithHashIDs")
		o.BoolVar(&o.options.Colocated, "colocated", false, "the program has ratelimit.WithColocation")
		o.StringVar(&o.options.LockPrefix, "lock-prefix", "", "`prefix` of redislock.WithPrefix (default rl)")
	}
	o.Usage = func() {
		fmt.Fprintf(c.stderr, "usage: %s\n\n", of.synopsis)
		o.PrintDefaults()
		fmt.Fprint(c.stderr, "\nrlgen help redis says more.\n")
	}
	return o
}

// in runs the operation in the Redis of an address.
func (o *operating) in(ctx context.Context, at live.Address, of operation) (int, error) {
	policies, code, err := o.policies(ctx)
	if err != nil || code != exitOK {
		return code, err
	}
	if o.options.Secret, err = o.secret(); err != nil {
		return exitFindings, err
	}
	if o.session, err = live.Open(ctx, at, policies, o.options); err != nil {
		return exitFindings, err
	}
	defer o.session.Close()
	return of.run(o, ctx)
}

// minSecret is how many bytes the secret of ratelimit.WithHashIDs has at least.
const minSecret = 16

// secret reads the secret of ids; nil for none.
func (o *operating) secret() ([]byte, error) {
	if o.secretFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.secretFile)
	if err != nil {
		return nil, argument("-hash-secret: %w", err)
	}
	secret := bytes.TrimRight(text, "\r\n")
	if len(secret) < minSecret {
		return nil, argument("-hash-secret: found %d bytes in %s, want %d or more: the secret of ratelimit.WithHashIDs, and nothing else but a line end", len(secret), o.secretFile, minSecret)
	}
	return secret, nil
}

// policies are those of the code, or of a file. The code is not exitOK where findings have been printed.
func (o *operating) policies(ctx context.Context) ([]*rules.Policy, int, error) {
	if o.limitsFile != "" {
		policies, err := readPolicies(o.limitsFile)
		return policies, exitOK, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, exitFindings, err
	}
	cfg := gen.Config{Dir: dir, Patterns: strings.Fields(o.packages)}
	if o.tags != "" {
		cfg.BuildFlags = []string{"-tags=" + o.tags}
	}
	r, code := o.load(ctx, cfg)
	if code != exitOK {
		return nil, code, nil
	}
	var policies []*rules.Policy
	for _, m := range r.Methods {
		policies = append(policies, m.Policy)
	}
	return policies, exitOK, nil
}

// readPolicies reads what list -json has printed.
func readPolicies(file string) ([]*rules.Policy, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, argument("-limits: %w", err)
	}
	defer f.Close()
	var methods []methodJSON
	if err := json.NewDecoder(f).Decode(&methods); err != nil {
		return nil, argument("-limits: %s: %w; want what rlgen list -json prints", file, err)
	}
	var policies []*rules.Policy
	for _, m := range methods {
		p := &rules.Policy{Package: m.Package, Type: m.Type, Method: m.Method}
		for _, l := range m.Limits {
			d, err := rules.Parse(l.Directive)
			if err != nil {
				return nil, argument("-limits: %s: %s.%s: %w; want what rlgen list -json of this version prints", file, m.Type, m.Method, err)
			}
			p.Limits = append(p.Limits, d.Limit)
		}
		policies = append(policies, p)
	}
	return policies, nil
}

// printJSON prints v as the other commands print JSON.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	return enc.Encode(v)
}

// would is a verb as it is printed: what is done, or would be.
func (o *operating) would(done, do string) string {
	if o.dry {
		return "would " + do
	}
	return done
}

// text is a duration as people read it: rounded to what counts of it.
func text(d time.Duration) string {
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if d >= 100*unit {
			return d.Round(unit / 10).String()
		}
	}
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// argument is an error of a wrong argument.
func argument(format string, args ...any) error {
	return fmt.Errorf("%w: %w", live.ErrArgument, fmt.Errorf(format, args...))
}

// duration is a duration in JSON: Go's text, empty for none.
func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
