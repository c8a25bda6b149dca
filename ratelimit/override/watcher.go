package override

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// DefaultInterval is how often sources are read unless [WithInterval] says otherwise.
const DefaultInterval = 5 * time.Second

// Source is where overrides are read from.
type Source interface {
	// Read returns what the source has now, and its version, which is not empty. Overrides are judged where the version is another than that of the last Read,
	// and nil where it is the same as seen. An error with a version says that they cannot be used, and one without that they cannot be read.
	Read(ctx context.Context, seen string) (overrides []rules.Override, version string, err error)
	// Watch calls changed when the source may have changed, until ctx is done. It returns at once where the source cannot know.
	Watch(ctx context.Context, changed func())
	// String is what messages call the source.
	String() string
}

// Option configures [New].
type Option interface{ apply(*Watcher) }

type optionFunc func(*Watcher)

func (f optionFunc) apply(w *Watcher) { f(w) }

// WithInterval sets how often sources are read. The default is [DefaultInterval].
func WithInterval(d time.Duration) Option {
	return optionFunc(func(w *Watcher) { w.interval = d })
}

// Watcher reads sources, and makes a limiter heed what they say. [New] makes it. It is safe for concurrent use.
type Watcher struct {
	limiter  *ratelimit.Limiter
	interval time.Duration

	mu      sync.Mutex
	sources []*state
}

// state is what is known of a source.
type state struct {
	Source
	seen   string           // the version that was last read, whether it could be used or not
	latest []rules.Override // what that version says, where it could be read
	waits  bool             // latest is not good, though it may be with what another source will say
	good   []rules.Override // what is in force
	bad    error            // why good is not what that version says; nil if it is
	gone   string           // why the source could not be read last; empty if it could
}

// New returns a watcher of sources, which reads nothing yet.
func New(limiter *ratelimit.Limiter, sources []Source, opts ...Option) (*Watcher, error) {
	w := &Watcher{limiter: limiter, interval: DefaultInterval}
	for _, o := range opts {
		o.apply(w)
	}
	for _, s := range sources {
		if s == nil {
			return nil, errors.New("override: a nil Source, want one of File or of package redisoverride")
		}
		w.sources = append(w.sources, &state{Source: s})
	}
	switch {
	case limiter == nil:
		return nil, errors.New("override: a nil *ratelimit.Limiter, want the one whose limits are overridden")
	case len(sources) == 0:
		return nil, errors.New("override: no sources, want one or more, such as override.File(path)")
	case w.interval <= 0:
		return nil, fmt.Errorf("override: an interval of %v, want more than 0", w.interval)
	}
	return w, nil
}

// Run reads the sources now, at every interval, and when one says that it has changed, until ctx is done, whose error it returns. What is wrong with a
// source is told as [ratelimit.Limiter.KeepOverrides] says. The limits that overrides name are to be prepared by then.
func (w *Watcher) Run(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, s := range w.sources {
		watching.Go(func() { s.Watch(ctx, func() { signal(changed) }) })
	}
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		_ = w.Read(ctx) // told by the limiter
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case <-changed:
		}
	}
}

// signal makes one value wait in c.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read reads the sources once, and makes the limiter heed those that have changed. The error has everything that is wrong with any of them, and is
// nil once there is nothing.
func (w *Watcher) Read(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var changed []*state
	var errs []error
	for _, s := range w.sources {
		news, err := w.read(ctx, s)
		if news {
			changed = append(changed, s)
		}
		errs = append(errs, err)
	}
	if len(changed) > 0 {
		w.heed(ctx, changed)
	}
	for _, s := range w.sources {
		if s.gone == "" {
			errs = append(errs, s.bad)
		}
	}
	return errors.Join(errs...)
}

// read reads one source, and reports whether there is anything new to judge. The error is why it cannot be read.
func (w *Watcher) read(ctx context.Context, s *state) (news bool, err error) {
	overrides, version, err := s.Read(ctx, s.seen)
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if version == "" {
		return false, w.missed(ctx, s, fmt.Errorf("override: %v: %w", s.Source, err))
	}
	s.gone = ""
	if version == s.seen {
		return false, nil
	}
	s.seen, s.waits = version, false
	if err != nil {
		s.bad = fmt.Errorf("override: %w", err)
		w.limiter.KeepOverrides(ctx, s.bad)
		return false, nil
	}
	s.latest, s.waits = overrides, true
	return true, nil
}

// heed makes the limiter heed what sources say now of which some have changed: as many of them together as fit those that are in force of the others. What is wrong
// with one that has changed is told.
func (w *Watcher) heed(ctx context.Context, changed []*state) {
	for _, together := range w.combinations() {
		if w.fit(together) && w.adopt(ctx, together) == nil {
			break
		}
	}
	for _, s := range changed {
		if s.waits {
			s.bad = w.adopt(ctx, []*state{s})
		}
	}
}

// most is how many sources that wait for each other are tried together.
const most = 6

// combinations are those of the sources that wait, the largest first.
func (w *Watcher) combinations() [][]*state {
	var waiting []*state
	for _, s := range w.sources {
		if s.waits && len(waiting) < most {
			waiting = append(waiting, s)
		}
	}
	all := make([][]*state, 0, 1<<len(waiting))
	for set := 1; set < 1<<len(waiting); set++ {
		var of []*state
		for i, s := range waiting {
			if set&(1<<i) != 0 {
				of = append(of, s)
			}
		}
		all = append(all, of)
	}
	slices.SortStableFunc(all, func(a, b []*state) int { return len(b) - len(a) })
	return all
}

// fit reports whether layers would be valid in which some sources say what they said last.
func (w *Watcher) fit(latest []*state) bool {
	var policies []*rules.Policy
	for _, p := range w.limiter.Survey().Policies {
		policies = append(policies, p.Written)
	}
	_, err := rules.Resolve(policies, w.layers(latest)...)
	return err == nil
}

// adopt makes the limiter heed layers in which some sources say what they said last, and else tells why it cannot.
func (w *Watcher) adopt(ctx context.Context, latest []*state) error {
	if err := w.limiter.Override(ctx, w.layers(latest)...); err != nil {
		return err
	}
	for _, s := range latest {
		s.good, s.waits, s.bad = s.latest, false, nil
	}
	return nil
}

// missed tells, once, of a source that cannot be read.
func (w *Watcher) missed(ctx context.Context, s *state, err error) error {
	if text := err.Error(); text != s.gone {
		s.gone = text
		w.limiter.KeepOverrides(ctx, err)
	}
	return err
}

// layers are what sources have said: some of them last, and the others last that could be used.
func (w *Watcher) layers(latest []*state) [][]rules.Override {
	layers := make([][]rules.Override, len(w.sources))
	for i, s := range w.sources {
		layers[i] = s.good
		if slices.Contains(latest, s) {
			layers[i] = s.latest
		}
	}
	return layers
}
