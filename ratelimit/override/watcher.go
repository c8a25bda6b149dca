package override

import (
	"context"
	"errors"
	"fmt"
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
	seen string // the version that was last read, whether it could be used or not
	good []rules.Override
	bad  error  // why good is not what that version says; nil if it is
	gone string // why the source could not be read last; empty if it could
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
	var errs []error
	for _, s := range w.sources {
		errs = append(errs, w.read(ctx, s))
	}
	return errors.Join(errs...)
}

// read reads one source, and returns why what is in force is not what it says.
func (w *Watcher) read(ctx context.Context, s *state) error {
	overrides, version, err := s.Read(ctx, s.seen)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if version == "" {
		return w.missed(ctx, s, fmt.Errorf("override: %v: %w", s.Source, err))
	}
	s.gone = ""
	if version == s.seen {
		return s.bad
	}
	s.seen = version
	if err != nil {
		s.bad = fmt.Errorf("override: %w", err)
		w.limiter.KeepOverrides(ctx, s.bad)
		return s.bad
	}
	before := s.good
	s.good = overrides
	if s.bad = w.limiter.Override(ctx, w.layers()...); s.bad != nil {
		s.good = before
	}
	return s.bad
}

// missed tells, once, of a source that cannot be read.
func (w *Watcher) missed(ctx context.Context, s *state, err error) error {
	if text := err.Error(); text != s.gone {
		s.gone = text
		w.limiter.KeepOverrides(ctx, err)
	}
	return err
}

// layers are what the sources have said last that could be used.
func (w *Watcher) layers() [][]rules.Override {
	layers := make([][]rules.Override, len(w.sources))
	for i, s := range w.sources {
		layers[i] = s.good
	}
	return layers
}
