package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// shop is an instance with one limit, which lets a user pass once.
type shop struct {
	t     *testing.T
	board *Dashboard
	guard *ratelimit.Guard
}

func newShop(t *testing.T, opts ...Option) *shop {
	t.Helper()
	seen := NewObserver()
	limiter, err := ratelimit.New(memstore.New(), ratelimit.WithObserver(seen))
	if err != nil {
		t.Fatal(err)
	}
	d, err := rules.Parse(rules.Namespace + "user 1,1h")
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, guard: limiter.Guard(&rules.Policy{Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{d.Limit}})}
	if s.board, err = New(limiter, seen, opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.board.Close)
	return s
}

// deny makes a call of a user who has passed before.
func (s *shop) deny(user string) {
	s.t.Helper()
	ctx := ratelimit.WithUser(context.Background(), user)
	for range 2 {
		_, _ = s.guard.Take(ctx)
	}
}

// unbuffered is a response whose reader gets what is written as it is written.
type unbuffered struct {
	*httptest.ResponseRecorder
	to *io.PipeWriter
}

func (u unbuffered) Write(p []byte) (int, error) { return u.to.Write(p) }

// sent is a tick, and when it was sent.
type sent struct {
	at     time.Time
	denied int // ids that it lists
}

// ticks are those of an open page.
func (s *shop) ticks(ctx context.Context) <-chan sent {
	from, to := io.Pipe()
	all := make(chan sent, 1000)
	go func() {
		defer to.Close()
		s.board.ServeHTTP(unbuffered{httptest.NewRecorder(), to}, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/debug/ratelimit/events", nil))
	}()
	go func() {
		defer close(all)
		event := ""
		for lines := bufio.NewScanner(from); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event = name
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || event != "tick" {
				continue
			}
			var v tickView
			if json.Unmarshal([]byte(data), &v) == nil {
				all <- sent{time.Now(), len(v.Denied)}
			}
		}
	}()
	return all
}

// A denied call is in the very next snapshot that a page is sent, and that is sent within a second, whenever the call comes.
func TestDeniedCallIsInTheNextSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ticks := s.ticks(ctx)
		<-ticks
		for n := 1; n <= 40; n++ {
			time.Sleep(time.Duration(n) * 97 * time.Millisecond)
			synctest.Wait()
			for len(ticks) > 0 {
				<-ticks
			}
			begin := time.Now()
			s.deny(fmt.Sprint("user-", n))
			next := <-ticks
			if took := next.at.Sub(begin); next.denied != n || took > time.Second {
				t.Errorf("%v after denied call %d the next snapshot lists %d, want all within a second", took, n, next.denied)
			}
		}
		cancel()
		for range ticks {
		}
	})
}

// What an instance has counted until it tells the others is in what it reads behind that, and in what each other one reads then.
func TestToldIsReadAtOnce(t *testing.T) {
	client := redistest.Start(t).Client(t)
	one, two := newShop(t, WithRedis(client), WithService("prompt")), newShop(t, WithRedis(client), WithService("prompt"))
	// beat tells and reads until Redis has answered, which a machine that stands still may miss; what is done before is done again then.
	beat := func(s *shop, before func()) shared {
		for {
			before()
			s.board.fleet.sync(context.Background(), s.board.presence(), &s.board.ids, true)
			if state := s.board.fleet.shared(); state.err == nil {
				return state
			}
		}
	}
	beat(one, func() {}) // both have the secret of ids that all have
	beat(two, func() {})
	for n := 1; n <= 5; n++ {
		if got := len(beat(one, func() { one.deny(fmt.Sprint("user-", n)) }).top); got != n {
			t.Errorf("the instance that has denied %d reads of %d, want all", n, got)
		}
		if got := len(beat(two, func() {}).top); got != n {
			t.Errorf("once one instance has denied %d and told of it the other reads of %d, want all", n, got)
		}
	}
}
