package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// meddler does something once before the hash is written.
type meddler struct {
	once sync.Once
	do   func()
}

func (m *meddler) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meddler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains([]string{"eval", "hset", "hdel"}, cmd.Name()) && m.do != nil {
			m.once.Do(m.do)
		}
		return next(ctx, cmd)
	}
}

func (m *meddler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// pool is a policy with two limits of one bucket, and one by itself.
func pool() []*rules.Policy {
	limit := func(name string) rules.Limit {
		return rules.Limit{Kind: rules.User, Name: name, Bucket: "pool", Rules: []rules.Rule{{Count: 3, Window: time.Hour}}}
	}
	one := &rules.Policy{Package: "example.com/m", Type: "m.Orders", Method: "One", Limits: []rules.Limit{limit("One")}}
	two := &rules.Policy{Package: "example.com/m", Type: "m.Orders", Method: "Two", Limits: []rules.Limit{limit("Two")}}
	find := &rules.Policy{Package: "example.com/m", Type: "m.Orders", Method: "Find", Limits: []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 3, Window: time.Hour}}}}}
	return []*rules.Policy{one, two, find}
}

func open(t *testing.T, addr string) *Session {
	t.Helper()
	s, err := Open(t.Context(), Address{"redis://" + addr}, pool(), Options{Lenient: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// What another writes between the reading and the writing is judged with it: of a limit that two set at once, each by another of its names, the hash has one entry.
func TestChangeMeetsAnother(t *testing.T) {
	server := redistest.Start(t)
	s, client := open(t, server.Addr()), server.Client(t)
	s.client.AddHook(&meddler{do: func() { client.HSet(t.Context(), redisoverride.Key, "Find", "9,1h") }})
	c, err := s.Change(t.Context(), []Entry{{Name: "m.Orders.Find", Text: "5,1h"}}, false)
	if err != nil {
		t.Fatal(err)
	}
	if fields := client.HGetAll(t.Context(), redisoverride.Key).Val(); !maps.Equal(fields, map[string]string{"Find": "5,1h"}) || c.Entries[0].Before != "9,1h" {
		t.Errorf("the hash has %q, and what stood before is said to be %q; want Find alone, and what another had made of it", fields, c.Entries[0].Before)
	}
}

// What would be refused together with what another has written meanwhile is not written.
func TestChangeRefusedForAnother(t *testing.T) {
	server := redistest.Start(t)
	s, client := open(t, server.Addr()), server.Client(t)
	s.client.AddHook(&meddler{do: func() { client.HSet(t.Context(), redisoverride.Key, "Gone", "9,1h") }})
	if _, err := s.Change(t.Context(), []Entry{{Name: "Find", Text: "5,1h"}}, false); err == nil || errors.Is(err, ErrArgument) {
		t.Errorf("Change of a hash that another has made wrong meanwhile = %v, want an error that is not of the arguments", err)
	}
	if n := client.HLen(t.Context(), redisoverride.Key).Val(); n != 1 {
		t.Errorf("the hash has %d entries, want that of the other alone", n)
	}
}

// Many who change the hash at once leave it valid each time that it is read, and nobody's change is lost.
func TestChangeUnderConcurrency(t *testing.T) {
	server := redistest.Start(t)
	client, policies := server.Client(t), pool()
	var writers, reader sync.WaitGroup
	for w := range 12 {
		s := open(t, server.Addr())
		writers.Go(func() {
			for n := range 8 {
				text := fmt.Sprintf("%d,1h", 4+w*8+n)
				entries := [][]Entry{
					{{"One", text}, {"Two", text}},
					{{Name: "One"}, {Name: "Two"}},
					{{"Find", text}},
					{{"m.Orders.Find", text}},
				}[(w+n)%4]
				if _, err := s.Change(t.Context(), entries, false); err != nil {
					t.Errorf("Change %v: %v", entries, err)
				}
			}
		})
	}
	done, source := make(chan struct{}), redisoverride.New(client)
	reader.Go(func() {
		for last := false; !last; {
			select {
			case <-done:
				last = true
			default:
			}
			list, _, err := source.Read(t.Context(), "")
			if err == nil {
				_, err = rules.Resolve(policies, list)
			}
			if err != nil {
				t.Errorf("programs refuse %v: %v", list, err)
			}
		}
	})
	writers.Wait()
	close(done)
	reader.Wait()
}

// A hash that programs refuse for its size is made smaller, by what is removed from it, and is said to be wrong until it is small enough; so it is where nothing is
// written.
func TestChangeOfWhatIsTooLarge(t *testing.T) {
	server := redistest.Start(t)
	s, client := open(t, server.Addr()), server.Client(t)
	large := strings.Repeat(" ", redisoverride.MaxSize)
	client.HSet(t.Context(), redisoverride.Key, "Find", "9,1h", "Gone", large, "Junk", large)
	if _, err := s.Change(t.Context(), []Entry{{"Find", "5,1h"}}, false); err == nil || !strings.Contains(err.Error(), `the largest are "Gone" (1048580 bytes)`) {
		t.Errorf("Change of another = %v, want an error with the sizes", err)
	}
	for _, step := range []struct{ name, fault string }{{"Gone", "found 1048588 bytes in 2 fields, want at most 1048576 bytes"}, {"Junk", ""}} {
		for _, dry := range []bool{true, false} {
			c, err := s.Change(t.Context(), []Entry{{Name: step.name}}, dry)
			if err != nil || (c.Fault == nil) != (step.fault == "") || c.Fault != nil && !strings.Contains(c.Fault.Error(), step.fault) {
				t.Errorf("removal of %s, dry %v = %v, %v, want it done, and said that: %q", step.name, dry, c.Fault, err, step.fault)
			}
		}
		layers, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, fault := layers.Resolve(); (fault == nil) != (step.fault == "") {
			t.Errorf("without %s the hash is wrong: %v, want %q", step.name, fault, step.fault)
		}
	}
	if _, err := s.Change(t.Context(), []Entry{{"Find", "5,1h"}}, false); err != nil {
		t.Error(err)
	}
}
