package redistest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// shared is what all tests of a package use together: started by the first, stopped by [Main].
var shared struct {
	mu         sync.Mutex
	stops      []func()
	standalone once[*Server]
	cluster    once[*Cluster]
	sentinel   once[*Sentinel]
}

// once starts something at most once.
type once[T any] struct {
	sync.Once
	value T
	err   error
}

func (o *once[T]) get(t testing.TB, start func() (T, error)) T {
	t.Helper()
	need(t)
	o.Do(func() { o.value, o.err = start() })
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.value
}

// Main runs a package's tests, stops the servers that they shared, and returns the tests' exit code.
func Main(m *testing.M) int {
	defer stopShared()
	return m.Run()
}

func stopShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, stop := range shared.stops {
		stop()
	}
	shared.stops = nil
}

// startShared starts a server that [Main] stops.
func startShared(args arguments) (*Server, error) {
	p, err := start(args)
	if err != nil {
		return nil, err
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.stops = append(shared.stops, p.stop)
	return &Server{p}, nil
}

// Standalone returns the server that the package's tests share. A test must not flush, stop or reconfigure it, and
// names its keys by [Prefix].
func Standalone(t testing.TB) *Server {
	t.Helper()
	return shared.standalone.get(t, func() (*Server, error) { return startShared(standalone) })
}

// Prefix returns what a test begins its keys with, so that it meets no other's: "rl:key=TestName-1a2b3c4d:".
func Prefix(t testing.TB) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'A' && r <= 'Z', r >= 'a' && r <= 'z':
			return r
		}
		return '_'
	}, t.Name())
	return fmt.Sprintf("rl:key=%s-%08x:", name, rand.Uint32())
}
