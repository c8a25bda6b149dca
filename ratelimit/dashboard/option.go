package dashboard

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
)

// Option configures a [Dashboard].
type Option interface{ apply(*Dashboard) error }

type optionFunc func(*Dashboard) error

func (f optionFunc) apply(d *Dashboard) error { return f(d) }

// WithService names the service: in the page's title, and in the keys of what its instances tell each other, so that services which share a Redis
// are told apart. It takes letters, digits, dot, dash and underscore. The default is "service".
func WithService(name string) Option {
	return optionFunc(func(d *Dashboard) error {
		if !serviceName.MatchString(name) {
			return fmt.Errorf("dashboard: found the service name %q, want 1 to 64 of a-z, A-Z, 0-9, dot, dash and underscore", name)
		}
		d.service = name
		return nil
	})
}

var serviceName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// WithRedis makes the instances of the service tell each other what they count, in client's Redis, while [Dashboard.Run] runs: the page of any of them shows
// the sum. With [WithWrites] it also sets overrides in the hash that package redisoverride reads. The default is to show this instance alone.
func WithRedis(client redis.UniversalClient) Option {
	return optionFunc(func(d *Dashboard) error {
		if isNil(client) {
			return fmt.Errorf("dashboard: a nil client, want one of the Redis that keeps the counts, or no WithRedis")
		}
		d.client = client
		return nil
	})
}

// WithOverridesKey names the hash of overrides that [WithWrites] sets, as [redisoverride.WithKey] does. The default is [redisoverride.Key].
func WithOverridesKey(key string) Option {
	return optionFunc(func(d *Dashboard) error {
		if key == "" {
			return fmt.Errorf("dashboard: an empty key of overrides, want that of the hash, or no WithOverridesKey for %s", redisoverride.Key)
		}
		d.hash = key
		return nil
	})
}

// WithWrites lets the page change things: reset, grant, ban and unban an id, and override a limit, switch it off or make it a shadow. The default is a page that
// reads. The dashboard knows nobody: whoever can open it can then do that, so put it behind what knows your team.
func WithWrites() Option {
	return optionFunc(func(d *Dashboard) error { d.writes = true; return nil })
}

// WithWho says who makes a request, for the log of changes. The default is the request's remote address.
func WithWho(who func(*http.Request) string) Option {
	return optionFunc(func(d *Dashboard) error {
		if who == nil {
			return fmt.Errorf("dashboard: a nil func, want one that says who makes a request, or no WithWho")
		}
		d.who = who
		return nil
	})
}

// WithLogger makes changes be logged to log. The default is [slog.Default].
func WithLogger(log *slog.Logger) Option {
	return optionFunc(func(d *Dashboard) error {
		if log == nil {
			return fmt.Errorf("dashboard: no logger: want WithLogger with one, or no WithLogger")
		}
		d.log = log
		return nil
	})
}

// WithClearIDs shows ids, in lists and in the log of changes, as callers are called. The default is a hash of each, for they are personal data as often as
// not.
func WithClearIDs() Option {
	return optionFunc(func(d *Dashboard) error { d.ids.clear = true; return nil })
}

// WithSecret keys the hashes of ids with a secret of 16 bytes or more, of which all instances have the same: they are then those that
// [ratelimit.WithDenialCallers] logs by the same secret. The default is a random one, which the instances share in Redis.
func WithSecret(secret []byte) Option {
	return optionFunc(func(d *Dashboard) error {
		if len(secret) < 16 {
			return fmt.Errorf("dashboard: a secret of %d bytes, want 16 or more", len(secret))
		}
		d.ids.given = true
		d.ids.share(secret)
		return nil
	})
}

// DefaultStreams is how many pages may be open at once unless [WithStreams] says otherwise.
const DefaultStreams = 32

// WithStreams sets how many pages may be open on this instance at once, 1 or more; further ones are told to try again. The default is [DefaultStreams].
func WithStreams(n int) Option {
	return optionFunc(func(d *Dashboard) error {
		if n < 1 {
			return fmt.Errorf("dashboard: %d streams, want 1 or more", n)
		}
		d.streams = make(chan struct{}, n)
		return nil
	})
}

// WithInstance says what this instance is called, 1 to 64 bytes. The default is the host's name and the process's id.
func WithInstance(name string) Option {
	return optionFunc(func(d *Dashboard) error {
		if name == "" || len(name) > 64 {
			return fmt.Errorf("dashboard: found the instance name %q, want 1 to 64 bytes", name)
		}
		d.instance = name
		return nil
	})
}

// WithSource says where directives stand: list is what "rlgen list -json ./..." prints when the program is built, such as a file that is embedded. The default is
// to name the package and the method.
func WithSource(list []byte) Option {
	return optionFunc(func(d *Dashboard) error {
		var methods []listed
		if err := json.Unmarshal(list, &methods); err != nil {
			return fmt.Errorf("dashboard: the list of directives cannot be read, want what rlgen list -json prints: %w", err)
		}
		d.places = placesOf(methods)
		return nil
	})
}

// listed is what is read of a method in such a list.
type listed struct {
	File   string
	Line   int
	Type   string
	Method string
	Limits []struct {
		Name string
		File string
		Line int
	}
}

// placesOf returns where directives stand, by the names of their limits' lanes.
func placesOf(methods []listed) map[string]string {
	places := make(map[string]string)
	for _, m := range methods {
		for _, l := range m.Limits {
			file, line := l.File, l.Line
			if line == 0 {
				file, line = m.File, m.Line
			}
			places[m.Type+"."+m.Method+" "+l.Name] = fmt.Sprintf("%s:%d", file, line)
		}
	}
	return places
}
