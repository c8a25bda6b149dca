package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

const (
	loadWorkers = 8
	loadCalls   = 20_000                  // at most
	loadPace    = 2500 * time.Microsecond // between the calls of all workers, at least
)

// answer is what a shop said to one call.
type answer struct {
	user, method string
	shop         int
	status       int
	from, to     time.Time
}

// admitted says whether an order was placed.
func (a answer) admitted() bool { return a.status == http.StatusCreated }

// load is calls of users who come and go, to shops that stand side by side: mostly orders, of each user some thirty.
type load struct {
	shops  []*program
	client *http.Client
	pace   *time.Ticker
	over   chan struct{}
	work   sync.WaitGroup

	mu      sync.Mutex
	next    int
	answers []answer
}

// startLoad starts a load that ends with [load.end], or once it has made so many calls.
func startLoad(t *testing.T, shops ...*program) *load {
	l := &load{shops: shops, client: newClient(t), pace: time.NewTicker(loadPace), over: make(chan struct{})}
	for w := range loadWorkers {
		draw := rand.New(rand.NewPCG(1, uint64(w)))
		l.work.Go(func() { l.worker(draw) })
	}
	return l
}

// end ends the load, and returns what was answered.
func (l *load) end() []answer {
	close(l.over)
	l.work.Wait()
	l.pace.Stop()
	return l.answers
}

func (l *load) worker(draw *rand.Rand) {
	for range loadCalls / loadWorkers {
		select {
		case <-l.over:
			return
		case <-l.pace.C:
		}
		l.call(draw)
	}
}

// call makes one call, and records it.
func (l *load) call(draw *rand.Rand) {
	l.mu.Lock()
	l.next++
	n := l.next
	l.mu.Unlock()
	a := answer{user: fmt.Sprint("u", n/40+draw.IntN(10)), shop: draw.IntN(len(l.shops)), method: "POST"}
	path := "/orders"
	switch draw.IntN(10) {
	case 0:
		a.method, path = "DELETE", fmt.Sprint("/orders/none-", n)
	case 1:
		a.method, path = "GET", "/orders/o-1"
	}
	a.from = time.Now()
	a.status = l.shops[a.shop].ask(l.client, a.user, a.method, path)
	a.to = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
}

// count is how many answers there are of a kind.
func (l *load) count(of func(answer) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return count(l.answers, of)
}

func count(answers []answer, of func(answer) bool) (n int) {
	for _, a := range answers {
		if of(a) {
			n++
		}
	}
	return n
}

// await waits until there are n more answers of a kind.
func (l *load) await(t *testing.T, what string, n int, of func(answer) bool) {
	t.Helper()
	n += l.count(of)
	if err := redistest.Poll(func() error {
		if got := l.count(of); got < n {
			return fmt.Errorf("%d answers are %s, want %d", got, what, n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// mostIn is the most orders that were surely placed in a window of this length: asked for after it began, and answered before it ended.
func mostIn(window time.Duration, answers []answer) (most int) {
	placed := slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return !a.admitted() })
	for _, first := range placed {
		end := first.from.Add(window)
		most = max(most, count(placed, func(a answer) bool {
			return !a.from.Before(first.from) && a.to.Before(end)
		}))
	}
	return most
}
