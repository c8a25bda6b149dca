package redisoverride_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// textOf is what overrides have of a name.
func textOf(now []rules.Override, name string) (text string, ok bool) {
	for i := range now {
		if now[i].Name == name {
			return now[i].Text, true
		}
	}
	return "", false
}

// countUp makes the count of an override one more.
func countUp(now []rules.Override) (map[string]string, error) {
	text, _ := textOf(now, "Create")
	n := 0
	if _, err := fmt.Sscanf(text, "%d,1h", &n); err != nil && text != "" {
		return nil, err
	}
	return map[string]string{"Create": fmt.Sprintf("%d,1h", n+1)}, nil
}

// Of many who change what they have read, each at once with the others, none loses what another has written: on one server, by Sentinel, and on a Cluster.
func TestAmendUnderConcurrency(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]func(t *testing.T) redis.UniversalClient{
		"server":   func(t *testing.T) redis.UniversalClient { return redistest.Standalone(t).Client(t) },
		"cluster":  func(t *testing.T) redis.UniversalClient { return redistest.NewCluster(t).Client(t) },
		"sentinel": func(t *testing.T) redis.UniversalClient { return redistest.NewSentinel(t).Client(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const writers = 32
			client, key := dial(t), redisoverride.WithKey("rl:overrides:"+t.Name())
			var running sync.WaitGroup
			for range writers {
				running.Go(func() {
					if _, err := redisoverride.Amend(context.Background(), client, countUp, key); err != nil {
						t.Errorf("Amend: %v", err)
					}
				})
			}
			running.Wait()
			if text, want := client.HGet(context.Background(), "rl:overrides:"+t.Name(), "Create").Val(), fmt.Sprintf("%d,1h", writers); text != want {
				t.Errorf("%d have each made the count one more, which is %q, want %q", writers, text, want)
			}
			client.Del(context.Background(), "rl:overrides:"+t.Name())
		})
	}
}

// What another writes between the reading and the writing is seen by whoever changes it, whatever it is: a text, a field more, one less, another in the place of one.
func TestAmendSeesWhatOthersWrite(t *testing.T) {
	client := redistest.Start(t).Client(t)
	for name, other := range map[string]func() error{
		"a text":       func() error { return client.HSet(t.Context(), redisoverride.Key, "Create", "2,1h").Err() },
		"a field more": func() error { return client.HSet(t.Context(), redisoverride.Key, "Two", "2,1h").Err() },
		"a field less": func() error { return client.HDel(t.Context(), redisoverride.Key, "Create").Err() },
		"all fields":   func() error { return client.Del(t.Context(), redisoverride.Key).Err() },
		"a field for another": func() error {
			_, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				p.HDel(t.Context(), redisoverride.Key, "Find")
				p.HSet(t.Context(), redisoverride.Key, "Other", "5,1h")
				return nil
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, client.Del(t.Context(), redisoverride.Key).Err())
			must(t, client.HSet(t.Context(), redisoverride.Key, "Create", "1,1h", "Find", "5,1h", "", "", "Gone", "").Err())
			asked := 0
			_, err := redisoverride.Amend(t.Context(), client, func(now []rules.Override) (map[string]string, error) {
				if asked++; asked == 1 {
					must(t, other())
				}
				return map[string]string{"Login": "9,1h", "Gone": "", "": ""}, nil
			})
			must(t, err)
			fields := client.HGetAll(t.Context(), redisoverride.Key).Val()
			if _, stays := fields["Gone"]; asked != 2 || fields["Login"] != "9,1h" || stays {
				t.Errorf("asked %d times, and the hash is %q, want twice, Login set, and Gone and the field without a name removed", asked, fields)
			}
		})
	}
}

// Nothing is written of which the change wants nothing, or is refused; and who is never faster than others gives up, and says so.
func TestAmendWritesNothing(t *testing.T) {
	client := redistest.Start(t).Client(t)
	no := errors.New("no")
	told, err := redisoverride.Amend(t.Context(), client, func([]rules.Override) (map[string]string, error) { return nil, no })
	if !errors.Is(err, no) || told != -1 {
		t.Errorf("Amend by a change that is refused = %d, %v, want -1 and its error", told, err)
	}
	told, err = redisoverride.Amend(t.Context(), client, func([]rules.Override) (map[string]string, error) { return nil, nil })
	if err != nil || told != -1 {
		t.Errorf("Amend by a change of nothing = %d, %v, want -1", told, err)
	}
	tries := 0
	_, err = redisoverride.Amend(t.Context(), client, func([]rules.Override) (map[string]string, error) {
		tries++
		return map[string]string{"Create": "1,1h"}, client.HSet(t.Context(), redisoverride.Key, "Find", fmt.Sprintf("%d,1h", tries)).Err()
	})
	if !errors.Is(err, redisoverride.ErrContended) {
		t.Errorf("Amend of what always changes = %v, want ErrContended", err)
	}
	_, err = redisoverride.Amend(t.Context(), client, func([]rules.Override) (map[string]string, error) {
		return map[string]string{"Create": strings.Repeat("x", redisoverride.MaxSize)}, nil
	})
	if err == nil || !strings.Contains(err.Error(), "at most 1048576 bytes") {
		t.Errorf("Amend to more than is ever read = %v, want an error", err)
	}
	if client.HExists(t.Context(), redisoverride.Key, "Create").Val() {
		t.Error("something is written")
	}
}

// A hash that is too large to be read is told of whole to whoever amends it: texts are removed from it, and set where it is small enough then.
func TestAmendOfWhatIsTooLarge(t *testing.T) {
	client := redistest.Start(t).Client(t)
	large := strings.Repeat(" ", redisoverride.MaxSize)
	must(t, client.HSet(t.Context(), redisoverride.Key, "Create", "20,1h", "more", large, "most", large+large).Err())
	to := func(texts map[string]string) error {
		_, err := redisoverride.Amend(t.Context(), client, func(now []rules.Override) (map[string]string, error) {
			if len(now) == 0 {
				t.Error("Amend is told of nothing")
			}
			return texts, nil
		})
		return err
	}
	want := `found 3145747 bytes in 3 fields, want at most 1048576 bytes; the largest are "most" (2097156 bytes), "more" (1048580 bytes), "Create" (11 bytes): `
	if err := to(map[string]string{"Create": "21,1h"}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a text beside = %v, want an error with %q", err, want)
	}
	must(t, to(map[string]string{"most": ""}))
	must(t, to(map[string]string{"more": "5,1h", "Create": "21,1h"}))
	if fields := client.HGetAll(t.Context(), redisoverride.Key).Val(); fields["Create"] != "21,1h" || fields["more"] != "5,1h" || len(fields) != 2 {
		t.Errorf("the hash has %q", fields)
	}
}

// The permissions that the package lists for those who set overrides are enough.
func TestAmendPermissions(t *testing.T) {
	server := redistest.Start(t)
	words := append(acl(t), "+hset", "+hdel", "+publish", "+eval")
	must(t, server.Client(t).Do(t.Context(), append([]any{"acl", "setuser", "desk", "reset"}, words...)...).Err())
	as := server.Client(t, func(o *redis.Options) { o.Username, o.Password, o.DisableIdentity = "desk", "pw", true })
	for range 2 {
		_, err := redisoverride.Amend(t.Context(), as, countUp)
		must(t, err)
	}
	_, err := redisoverride.Amend(t.Context(), as, func([]rules.Override) (map[string]string, error) { return map[string]string{"Create": ""}, nil })
	must(t, err)
	must(t, redisoverride.Set(t.Context(), as, "Create", "5,1h"))
}
