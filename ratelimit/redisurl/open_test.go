package redisurl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisurl"
)

// open returns the client of a URL.
func open(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisurl.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestOpenServer(t *testing.T) {
	for _, test := range []struct {
		url                           string
		network, addr, user, password string
		db                            int
		tls                           bool
	}{
		{"redis://host", "tcp", "host:6379", "", "", 0, false},
		{"REDIS://host:1/3", "tcp", "host:1", "", "", 3, false},
		{"redis://:pw@host/3?db=4", "tcp", "host:6379", "", "pw", 4, false},
		{"rediss://me:p%40w%2F@[::1]:7", "tcp", "[::1]:7", "me", "p@w/", 0, true},
		{"unix://me:pw@/run/redis.sock?db=2", "unix", "/run/redis.sock", "me", "pw", 2, false},
	} {
		t.Run(test.url, func(t *testing.T) {
			client, ok := open(t, test.url).(*redis.Client)
			if !ok {
				t.Fatal("Open makes another client, want a *redis.Client")
			}
			o := client.Options()
			if o.Network != test.network || o.Addr != test.addr || o.Username != test.user || o.Password != test.password ||
				o.DB != test.db || (o.TLSConfig != nil) != test.tls {
				t.Errorf("%s %s, user %q, password %q, db %d, TLS %v; want %+v",
					o.Network, o.Addr, o.Username, o.Password, o.DB, o.TLSConfig != nil, test)
			}
			if o.DialerRetries != 1 || o.ReadTimeout != 200*time.Millisecond || o.DialTimeout != time.Second {
				t.Errorf("%d dials, of %v, and %v for a reply, want what suits a limiter", o.DialerRetries, o.DialTimeout, o.ReadTimeout)
			}
		})
	}
}

func TestOpenKeepsWhatTheURLSays(t *testing.T) {
	o := open(t, "redis://host?read_timeout=2s&dial_timeout=4s&pool_size=7&protocol=2").(*redis.Client).Options()
	if o.ReadTimeout != 2*time.Second || o.DialTimeout != 4*time.Second || o.PoolSize != 7 || o.Protocol != 2 {
		t.Errorf("options %+v, want those of the URL", o)
	}
}

func TestOpenCluster(t *testing.T) {
	for _, url := range []string{
		"rediss+cluster://me:pw@one:1,two:2,three", "rediss://me:pw@one:1?addr=two:2&addr=three:6379", "rediss+cluster://me:pw@one:1,two:2,three:6379/0",
	} {
		t.Run(url, func(t *testing.T) {
			client, ok := open(t, url).(*redis.ClusterClient)
			if !ok {
				t.Fatal("Open makes another client, want a *redis.ClusterClient")
			}
			o := client.Options()
			if got := strings.Join(o.Addrs, " "); got != "one:1 two:2 three:6379" {
				t.Errorf("addresses %s, want one:1 two:2 three:6379", got)
			}
			if o.Username != "me" || o.Password != "pw" || o.TLSConfig == nil || o.DialerRetries != 1 || o.ReadTimeout != 200*time.Millisecond {
				t.Errorf("options %+v, want those of the URL and what suits a limiter", o)
			}
		})
	}
}

func TestOpenSentinel(t *testing.T) {
	for _, url := range []string{
		"redis+sentinel://me:pw@one:1,two:2/main/3?sentinel_username=s&sentinel_password=spw",
		"redis://s:spw@one:1/3?master_name=main&addr=two:2&username=me&password=pw",
	} {
		t.Run(url, func(t *testing.T) {
			client, ok := open(t, url).(*redis.Client)
			if !ok {
				t.Fatal("Open makes another client, want a *redis.Client")
			}
			o := client.Options()
			if o.Addr != "FailoverClient" || o.Username != "me" || o.Password != "pw" || o.DB != 3 || o.DialerRetries != 1 {
				t.Errorf("options %+v, want those of the URL and what suits a limiter", o)
			}
		})
	}
}

// secret stands in each URL of these tests where people put passwords, and in no error.
const secret = "hunter2"

func TestOpenRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"":                                               "the URL is empty",
		secret:                                           "want redis",
		"http://:hunter2@host":                           "want redis",
		"hunter2://host":                                 "want redis",
		"redis:hunter2@host":                             "want redis",
		"redis://:hunter2/x@host":                        "%XX",
		"redis://:x/hunter2@host":                        "%XX",
		"redis://:x%hunter2@host":                        "%XX",
		"redis://:x#hunter2@host":                        "%XX",
		"redis://:x?hunter2=1@host":                      "%XX",
		"redis://u:x@hunter2@host:port":                  "has a port that is none, want a number from 1 to 65535",
		"redis://:hunter2@host:port":                     "has a port that is none, want a number from 1 to 65535",
		"redis://:hunter2@host:port/2?db=1":              "has a port that is none, want a number from 1 to 65535",
		"redis://:x%hunter2@host:port":                   "%XX",
		"redis://:hunter2@host:port%":                    "has a port that is none, want a number from 1 to 65535",
		"redis://:hunter2@host name":                     "has a space in it",
		"redis://user:hunter2":                           "has a port that is none, want a number from 1 to 65535",
		"redis://:pw@host?x=%hunter2":                    "%XX",
		"redis://:pw@host/hunter2":                       "want a number",
		"redis://:pw@host/-1?x=hunter2":                  "want a number",
		"redis://host/1/hunter2":                         "want a number",
		"redis://:hunter2@one,two":                       "several hosts",
		"redis://host?hunter2=1":                         "does not know",
		"redis://host?password=hunter2":                  "does not know",
		"redis://host?read_timeout=hunter2":              "read_timeout",
		"redis://host?db=hunter2":                        "option db",
		"redis://host?pool_fifo=hunter2":                 "pool_fifo",
		"redis://:hunter2@host?pool_size=99999999999":    "numbers",
		"unix://:hunter2@":                               "want unix:///path",
		"redis+sentinel://:hunter2@host":                 "names no master",
		"redis://host?master_name=&password=hunter2":     "names no master",
		"unix://:hunter2@run/redis.sock":                 "want unix:///path",
		"redis+sentinel://host/main/hunter2":             "want a number",
		"redis+sentinel://host/main?hunter2=x":           "does not know",
		"redis+cluster://:hunter2@host/1":                "a cluster has number 0",
		"redis+cluster://host?addr=hunter2":              "option addr",
		"redis+cluster://host?sentinel_password=hunter2": "does not know",
	} {
		t.Run(url, func(t *testing.T) {
			client, err := redisurl.Open(url)
			if err == nil {
				client.Close()
				t.Fatal("Open succeeds, want an error")
			}
			if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "redisurl: ") {
				t.Errorf("Open = %q, want %q in it", err, want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("Open = %q, which holds a part of the URL", err)
			}
		})
	}
}

// TestOpenRefusesHosts holds that a URL without a server, which is one whose variables were empty, leads nowhere, and neither do hosts that no
// client could dial.
func TestOpenRefusesHosts(t *testing.T) {
	const (
		empty    = " is empty, want a name or an address: redis://host:port, and redis://user:password@host:port/db"
		port     = " has a port that is none, want a number from 1 to 65535 behind the colon, or no colon: host:6379"
		brackets = " has more than one colon, want an IPv6 address in brackets: redis://[::1]:6379"
		address  = " has something in brackets that is no IPv6 address, want one: redis://[::1]:6379"
		space    = " has a space in it, want none: redis+cluster://host:port,host:port"
	)
	for url, want := range map[string]string{
		"redis://":                                "the URL's host" + empty,
		"rediss:///3":                             "the URL's host" + empty,
		"redis://:6379":                           "the URL's host" + empty,
		"redis://:99999":                          "the URL's host" + empty,
		"redis://me:hunter2@":                     "the URL's host" + empty,
		"redis://:hunter2@:6379/1":                "the URL's host" + empty,
		"redis://?addr=b:1":                       "the URL's host" + empty,
		"redis://?master_name=main&addr=b:1":      "the URL's host" + empty,
		"redis+cluster://":                        "the URL's host" + empty,
		"redis+sentinel:///main":                  "the URL's host" + empty,
		"redis+sentinel://:hunter2@/main":         "the URL's host" + empty,
		"redis+sentinel://,/main":                 "the URL's host 1 of 2" + empty,
		"redis+sentinel://a:1,,c:3/main":          "the URL's host 2 of 3" + empty,
		"redis+cluster://:hunter2@a,b,":           "the URL's host 3 of 3" + empty,
		"redis://host:":                           "the URL's host" + port,
		"redis://host:0":                          "the URL's host" + port,
		"redis://:hunter2@host:99999":             "the URL's host" + port,
		"redis://[::1]:99999":                     "the URL's host" + port,
		"redis+cluster://:pw@a:1,b:hunter2":       "the URL's host 2 of 2" + port,
		"redis+sentinel://a:1,b:65536/main":       "the URL's host 2 of 2" + port,
		"redis://::1":                             "the URL's host" + brackets,
		"redis://fe80::1:6379":                    "the URL's host" + brackets,
		"redis+cluster://a,hunter2::1":            "the URL's host 2 of 2" + brackets,
		"redis+cluster://a,[hunter2]:1":           "the URL's host 2 of 2" + address,
		"redis+cluster://a,[::1":                  "the URL's host 2 of 2" + address,
		"redis+cluster://a,[::1]hunter2":          "the URL's host 2 of 2" + address,
		"redis+cluster://a, hunter2":              "the URL's host 2 of 2" + space,
		"redis://a?addr=":                         "the URL's option addr" + empty,
		"redis://a?addr=b:99999":                  "the URL's option addr" + port,
		"redis+sentinel://a/main?addr=b:hunter2":  "the URL's option addr" + port,
		"redis+sentinel://a/main?addr=b:1&addr=:": "the URL's option addr" + empty,
	} {
		t.Run(url, func(t *testing.T) {
			client, err := redisurl.Open(url)
			if err == nil {
				client.Close()
			}
			if got, want := fmt.Sprint(err), "redisurl: "+want; got != want {
				t.Errorf("Open = %s, want %s", got, want)
			}
		})
	}
}

// FuzzOpen holds that no part of a URL is in an error, and that Open does not panic.
func FuzzOpen(f *testing.F) {
	f.Add("redis://:", "@host")
	f.Add("redis+sentinel://:", "@host,other/main")
	f.Add("redis+cluster://host?addr=", "")
	f.Fuzz(func(t *testing.T, before, after string) {
		client, err := redisurl.Open(before + secret + after)
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("Open(%q) = %q, which holds a part of the URL", before+secret+after, err)
			}
			return
		}
		client.Close()
	})
}
