package dashboard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
)

// Dashboard is the page of a limiter, and what it asks for. It is safe for concurrent use. The zero Dashboard is not valid; [New] makes one.
type Dashboard struct {
	limiter  *ratelimit.Limiter
	observer *Observer
	service  string
	instance string
	began    time.Time
	member   string // this process, among the instances
	client   redis.UniversalClient
	hash     string // of overrides
	writes   bool
	who      func(*http.Request) string
	log      *slog.Logger
	ids      ids
	places   map[string]string // where directives stand, by lane
	streams  chan struct{}     // has room for those that may be open
	cross    *http.CrossOriginProtection
	hosts    []string // in lower case
	fleet    *fleet   // nil without a client
	diary    diary
	routes   map[string]route

	running atomic.Int64 // calls of Run
	closing context.Context
	close   context.CancelFunc
	pulse   pulse
}

// New returns the dashboard of a limiter, which is one that tells observer of its decisions. It sends nothing and starts nothing.
func New(limiter *ratelimit.Limiter, observer *Observer, opts ...Option) (*Dashboard, error) {
	d := &Dashboard{
		limiter: limiter, observer: observer, service: "service", instance: thisProcess(), began: time.Now(), member: rand.Text(),
		who: func(r *http.Request) string { return r.RemoteAddr }, log: slog.Default(),
		streams: make(chan struct{}, DefaultStreams), cross: http.NewCrossOriginProtection(), hash: redisoverride.Key,
	}
	switch {
	case limiter == nil:
		return nil, errors.New("dashboard: a nil *ratelimit.Limiter, want the one to show")
	case observer == nil || observer.clock == nil:
		return nil, errors.New("dashboard: no observer, want the one of NewObserver that the limiter has by ratelimit.WithObserver")
	}
	var errs []error
	for _, o := range opts {
		errs = append(errs, o.apply(d))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	d.ids.ready()
	d.closing, d.close = context.WithCancel(context.Background())
	d.pulse.next = make(chan struct{})
	if d.client != nil {
		d.fleet = newFleet(d.client, d.service, observer)
	}
	d.routes = d.newRoutes()
	return d, nil
}

func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "process"
	}
	return fmt.Sprintf("%.48s/%d", host, os.Getpid())
}

// isNil reports whether v is nil, or a nil pointer.
func isNil(v any) bool {
	return v == nil || reflect.ValueOf(v).Kind() == reflect.Pointer && reflect.ValueOf(v).IsNil()
}

// Run tells the other instances each second what this one has counted, if anything, and that it is there, until ctx is done, whose error it returns. It
// ends the open pages then, as [Dashboard.Close] does. Without [WithRedis] it does no more than that, and need not be called.
func (d *Dashboard) Run(ctx context.Context) error {
	d.running.Add(1)
	defer d.running.Add(-1)
	defer d.Close()
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		d.beat()
		select {
		case <-ctx.Done():
			d.leave()
			return context.Cause(ctx)
		case <-d.closing.Done():
			d.leave()
			return errors.New("dashboard: closed")
		case <-tick.C:
		}
	}
}

// Close ends the open pages, so that a server which shuts down need not wait for them; those that come later are told so. It is for
// [http.Server.RegisterOnShutdown].
func (d *Dashboard) Close() { d.close() }

// leave tells the others that this instance is gone.
func (d *Dashboard) leave() {
	if d.fleet == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fleetBudget)
	defer cancel()
	d.fleet.leave(ctx, d.member)
}

const (
	// beatEvery is how often there is a new snapshot.
	beatEvery = time.Second
	// beatSlack is by how much one may come earlier.
	beatSlack = 50 * time.Millisecond
)

// pulse is the latest snapshot, and who waits for the next.
type pulse struct {
	mu     sync.Mutex
	latest time.Time
	frames *frames
	beats  int           // snapshots that were made
	next   chan struct{} // closed once there is a newer one
	open   atomic.Int64  // streams
}

// beat makes a new snapshot, unless there has been one just now.
func (d *Dashboard) beat() {
	d.pulse.mu.Lock()
	defer d.pulse.mu.Unlock()
	if time.Since(d.pulse.latest) < beatEvery-beatSlack && (d.pulse.frames != nil || d.pulse.open.Load() == 0) {
		return
	}
	d.sync()
	d.pulse.latest = time.Now()
	if d.pulse.open.Load() == 0 {
		d.pulse.frames = nil
		return
	}
	d.pulse.beats++
	d.pulse.frames = d.frames(d.pulse.frames)
	close(d.pulse.next)
	d.pulse.next = make(chan struct{})
}

// sync tells the fleet what this instance has counted, and asks what the fleet has where somebody looks.
func (d *Dashboard) sync() {
	if d.fleet == nil || d.running.Load() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fleetBudget)
	defer cancel()
	d.fleet.sync(ctx, d.presence(), &d.ids, d.pulse.open.Load() > 0)
}
