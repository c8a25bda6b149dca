package rediscall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// ends are how calls end, by a letter each.
var ends = map[rune]error{
	's': nil, // decided
	'f': Fail("here", store.Unavailable, errors.New("no answer"), ""),
	'b': Fail("here", store.Indeterminate, ErrBudget, ""),
	'r': Fail("here", store.Misconfigured, errors.New("refused"), ""),
	'c': context.Canceled, // the caller has gone away
	't': Fail("here", store.Unavailable, reply("TRYAGAIN Multiple keys request during rehashing of slot"), ""),
	'd': Fail("here", store.Unavailable, reply("CLUSTERDOWN Hash slot not served"), ""),
	'D': Fail("here", store.Unavailable, reply("CLUSTERDOWN The cluster is down"), ""),
}

// TestBreakerCountsInARow holds that five failures in a row let the server rest, whether the calls came one after the other or had all
// begun while it did well.
func TestBreakerCountsInARow(t *testing.T) {
	for calls, want := range map[string]bool{
		"":           false,
		"ffff":       false,
		"fffff":      true,
		"sssfffff":   true,
		"ffffsffff":  false,
		"ffffrffff":  false,
		"ffffcf":     true,
		"ccccc":      false,
		"rrrrrr":     false,
		"ffffsfffff": true,
		"bbbbb":      true,
		"tttttddddd": false,
		"ffffdf":     true,
		"DDDDD":      true,
	} {
		t.Run(calls, func(t *testing.T) {
			one := NewServers("rediscall", nil).Of("")
			for _, end := range calls {
				pass, err := one.Permit()
				if err != nil {
					t.Fatalf("Permit = %v before the fifth failure in a row", err)
				}
				pass.Report(ends[end])
			}
			wantRest(t, "one after the other", one, want)

			all := NewServers("rediscall", nil).Of("")
			passes := make([]Pass, len(calls))
			for i := range passes {
				var err error
				if passes[i], err = all.Permit(); err != nil {
					t.Fatal(err)
				}
			}
			for i, end := range calls {
				passes[i].Report(ends[end])
			}
			wantRest(t, "all at once", all, want)
		})
	}
}

func wantRest(t *testing.T, how string, s *Server, want bool) {
	t.Helper()
	if got := s.Resting(); got != want {
		t.Errorf("%s: Resting() = %v, want %v", how, got, want)
	}
	if _, err := s.Permit(); errors.Is(err, ErrResting) != want {
		t.Errorf("%s: Permit() = %v, want that the server rests: %v", how, err, want)
	}
}

// TestBudgetsThatEndBehindOthers holds that calls whose budgets end while the server decides others' do not let it rest, and those that
// end while it decides nobody's do.
func TestBudgetsThatEndBehindOthers(t *testing.T) {
	s := NewServers("rediscall", nil).Of("")
	begin := func() []Pass {
		passes := make([]Pass, 10)
		for i := range passes {
			passes[i], _ = s.Permit()
		}
		return passes
	}
	waiting := begin()
	decided, _ := s.Permit()
	decided.Report(nil)
	for i := range waiting {
		waiting[i].Report(ends['b'])
	}
	wantRest(t, "behind one that was decided", s, false)

	late, _ := s.Permit()
	for _, p := range begin() {
		p.Report(ends['b'])
	}
	late.Report(nil)
	wantRest(t, "before one that was decided too late", s, true)
}

// TestPassReportsOnce holds that only the first report of a call counts.
func TestPassReportsOnce(t *testing.T) {
	s := NewServers("rediscall", nil).Of("")
	pass, _ := s.Permit()
	for range 10 {
		pass.Report(ends['f'])
	}
	wantRest(t, "one call that failed", s, false)
	(&Pass{}).Report(ends['f'])
}

// known returns servers whose client has learnt that each key is at a server of its name.
func known(t *testing.T) *Servers {
	s := NewServers("rediscall", nil)
	s.named = func(key string) (string, *redis.Client) { return key, nil }
	if first := s.Of("a"); first != s.Of("b") {
		t.Fatal("servers are told apart before the client knows them")
	}
	pass, _ := s.Of("a").Permit()
	pass.Report(nil)
	if s.Of("a") == s.Of("b") {
		t.Fatal("servers are not told apart once the client knows them")
	}
	return s
}

// TestOneServerRests holds that the others are asked, and that the error of the one names it.
func TestOneServerRests(t *testing.T) {
	s := known(t)
	for range trip {
		pass, _ := s.Of("one:1").Permit()
		pass.Report(ends['f'])
	}
	wantRest(t, "the one that failed", s.Of("one:1"), true)
	wantRest(t, "another", s.Of("two:2"), false)
	if got := s.Resting(); !slices.Equal(got, []string{"one:1"}) {
		t.Errorf("Resting() = %q, want one:1", got)
	}
	_, err := s.Of("one:1").Permit()
	want := "unavailable: server one:1: rediscall: the server has not decided the last calls, and is not asked for a moment"
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("the error of the one: %s", diff)
	}
}

// TestServersAreForgotten holds that of servers which come and go only those stay known that were asked in the last minutes, and that what
// is known of the others stays.
func TestServersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := known(t)
		stays := s.Of("stays")
		for i := range 10_000 {
			s.Of(fmt.Sprint("goes ", i))
			if s.Of("stays") != stays {
				t.Fatal("a server that is asked all the time is forgotten")
			}
			time.Sleep(time.Second)
		}
		if n, want := len(*s.known.Load()), 3*int(sweep/time.Second); n > want {
			t.Errorf("%d servers are known, want at most those %d of the last minutes", n, want)
		}
	})
}

// TestTellsOfServersBetweenRests holds that a server which few calls meet is told of for as long as it answers none, not in its rests alone, and that one which
// nobody asks any more, such as a master that another has followed, is told of for a minute.
func TestTellsOfServersBetweenRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := NewServers("rediscall", nil)
		one := servers.Of("")
		ask := func(end rune) {
			pass, err := one.Permit()
			if err != nil {
				t.Fatalf("Permit = %v", err)
			}
			pass.Report(ends[end])
		}
		want := func(when string, want int) {
			t.Helper()
			if got := servers.Resting(); len(got) != want {
				t.Errorf("%s: Resting() = %q, want %d", when, got, want)
			}
		}
		for range trip {
			want("before the fifth failure", 0)
			ask('f')
		}
		for range 100 {
			want("in a rest", 1)
			time.Sleep(rest + time.Second)
			want("after a rest", 1)
			ask('f')
		}
		time.Sleep(lingers - time.Second)
		want("while nobody has asked for less than a minute", 1)
		time.Sleep(time.Second)
		want("once nobody has asked for a minute", 0)
		ask('f')
		want("once a call has failed again", 1)
		time.Sleep(rest + 1)
		ask('s')
		want("once a call was decided", 0)
	})
}

// TestReportsOfThoseWhoHaveGone holds what a call says of the server whose caller's deadline was sooner than the budget: how it lands, and that nobody has answered it
// once the budget ends, unless others have been answered meanwhile.
func TestReportsOfThoseWhoHaveGone(t *testing.T) {
	const budget, lands = 100 * time.Millisecond, 60 * time.Millisecond
	for name, test := range map[string]struct {
		lands  bool
		end    error
		gone   bool // it ends because its caller has gone
		others bool // are answered meanwhile
		want   bool // that the server rests after five
		at     time.Duration
	}{
		"never lands":                            {want: true, at: budget},
		"never lands, others do":                 {others: true, at: budget},
		"lands with an answer":                   {lands: true, at: lands},
		"lands with a failure":                   {lands: true, end: ends['f'], want: true, at: lands},
		"lands refused":                          {lands: true, end: ends['r'], at: lands},
		"is not sent":                            {lands: true, end: ends['f'], gone: true, want: true, at: budget},
		"is not sent, while others are answered": {lands: true, end: ends['f'], gone: true, others: true, at: budget},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServers("rediscall", nil).Of("")
				for range trip {
					pass, err := s.Permit()
					if err != nil {
						t.Fatal(err)
					}
					landed := make(chan struct{})
					if test.lands {
						time.AfterFunc(lands, func() { close(landed) })
					}
					pass.ReportLater(landed, func() (error, bool) { return test.end, !test.gone }, time.Now().Add(budget))
					pass.Report(nil) // which says nothing any more
				}
				if test.others {
					other, _ := s.Permit()
					other.Report(nil)
				}
				time.Sleep(test.at - time.Nanosecond)
				synctest.Wait()
				wantRest(t, "before the end", s, false)
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				wantRest(t, "at the end", s, test.want)
				time.Sleep(budget)
			})
		})
	}
}
