package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

var measure = flag.Bool("measure", false, "measure every algorithm on a redis-server of its own, and write the tables of ../ALGORITHMS.md")

// measuredCounts are the columns of the tables.
var measuredCounts = []int64{10, 100, 1000, 10_000}

// TestMeasure writes what every algorithm takes of Redis's memory and time:
//
//	go test ./ratelimit/redisstore -run '^TestMeasure$' -measure
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("-measure is not set")
	}
	server := redistest.Start(t)
	client := server.Client(t)
	var bytes, micros strings.Builder
	head := "| algorithm |"
	for _, count := range measuredCounts {
		head += fmt.Sprintf(" %d |", count)
	}
	head += "\n|---|" + strings.Repeat("---:|", len(measuredCounts)) + "\n"
	bytes.WriteString(head)
	micros.WriteString(head)
	for _, name := range variantNames(t) {
		fmt.Fprintf(&bytes, "| `%s` |", name)
		for _, count := range measuredCounts {
			fmt.Fprintf(&bytes, " %d |", memoryOf(t, client, measured(t, count)[name]))
		}
		bytes.WriteString("\n")
	}
	allowed, denied := turns(t, client)
	for _, name := range variantNames(t) {
		fmt.Fprintf(&micros, "| `%s` |", name)
		for _, count := range measuredCounts {
			fmt.Fprintf(&micros, " %.0f / %.0f |", slices.Min(allowed[cell{name, count}]), slices.Min(denied[cell{name, count}]))
		}
		micros.WriteString("\n")
	}
	version := regexp.MustCompile(`redis_version:(\S+)`).FindStringSubmatch(client.Info(t.Context(), "server").Val())[1]
	where := fmt.Sprintf("Measured on %s, Redis %s, %s/%s, %d processors.\n", time.Now().UTC().Format("2006-01-02"), version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	replaceBetween(t, "bytes", "\n"+where+"\n"+bytes.String())
	replaceBetween(t, "time", "\n"+where+"\n"+micros.String())
}

// cell is a place in a table.
type cell struct {
	name  string
	count int64
}

// turns measures the time of every cell several times, in turns with the others: the lowest is what the least else of
// the machine's work is in.
func turns(t *testing.T, client *redis.Client) (allowed, denied map[cell][]float64) {
	t.Helper()
	allowed, denied = map[cell][]float64{}, map[cell][]float64{}
	for range 7 {
		for _, count := range measuredCounts {
			for name, req := range measured(t, count) {
				at := cell{name, count}
				a, d := timeOf(t, client, req)
				allowed[at], denied[at] = append(allowed[at], a), append(denied[at], d)
			}
		}
	}
	return allowed, denied
}

// measured returns, by its options, a call of every algorithm: those for which all laws hold, and a queue.
func measured(t *testing.T, count int64) map[string]store.Request {
	t.Helper()
	const queue = "algo=leaky-bucket wait=1m"
	requests := storetest.Requests(t, "rl:user=", count, time.Minute)
	d, err := rules.Parse(fmt.Sprintf("//ratelimit:user %d,1m %s", count, queue))
	if err != nil {
		t.Fatal(err)
	}
	requests[queue] = store.NewRequest(&d.Limit, "rl:user="+queue, 1)
	return requests
}

func variantNames(t *testing.T) []string {
	return slices.Sorted(maps.Keys(measured(t, 10)))
}

// replaceBetween writes text between two comments of the page.
func replaceBetween(t *testing.T, mark, text string) {
	t.Helper()
	const page = "../ALGORITHMS.md"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(old), "<!-- "+mark+" -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end -->\n")
	if !found || !ended {
		t.Fatalf("%s has no %s", page, mark)
	}
	if err := os.WriteFile(page, []byte(before+"<!-- "+mark+" -->\n"+text+"\n<!-- end -->\n"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// memoryOf spreads all of a limit's count over its window, and returns the bytes of its key besides the key's own text.
func memoryOf(t *testing.T, client *redis.Client, req store.Request) int64 {
	t.Helper()
	client.FlushAll(t.Context())
	clock := storetest.NewClock()
	s := newStore(t, client, redisstore.WithClock(clock.Now))
	count := req.Rules[0].Count
	for range count {
		take(t, s, req)
		clock.Move(req.Rules[0].Window / time.Duration(count))
	}
	n, err := client.MemoryUsage(t.Context(), req.Key, 0).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n - int64(len(req.Key))
}

// timeOf returns the server's mean time for a decision, µs: of calls that use up the last half of a limit, and of calls that are
// then denied.
func timeOf(t *testing.T, client *redis.Client, req store.Request) (allowed, denied float64) {
	t.Helper()
	client.FlushAll(t.Context())
	s := newStore(t, client)
	req.Rules = slices.Clone(req.Rules)
	req.Rules[0].Window = 24 * time.Hour // nothing comes back meanwhile
	count := req.Rules[0].Count
	if req.Queue {
		req.Wait = req.Rules[0].Window * time.Duration(count-1) / time.Duration(count) // that of the last call
	}
	half := min(count/2, 500)
	var spent, calls, spentDenied, callsDenied float64
	for round := range max(1, 500/half) {
		req.Key = fmt.Sprintf("rl:user=%d-%d", round, rand.Uint32())
		for left := count - half; left > 0; left -= min(left, 1000) {
			bulk := req
			bulk.Cost = min(left, 1000)
			take(t, s, bulk)
		}
		us, n := spend(t, client, s, req, half)
		spent, calls = spent+us, calls+n
		us, n = spend(t, client, s, req, half)
		spentDenied, callsDenied = spentDenied+us, callsDenied+n
	}
	return spent / calls, spentDenied / callsDenied
}

var evalsha = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),usec=(\d+)`)

// spend takes one permit n times, and returns the server's µs for them and their number.
func spend(t *testing.T, client *redis.Client, s *redisstore.Store, req store.Request, n int64) (us, calls float64) {
	t.Helper()
	if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if _, err := store.Take(context.Background(), s, []store.Request{req}, false); err != nil {
			t.Fatal(err)
		}
	}
	found := evalsha.FindStringSubmatch(client.Info(t.Context(), "commandstats").Val())
	if found == nil {
		t.Fatal("INFO commandstats has no evalsha")
	}
	calls, _ = strconv.ParseFloat(found[1], 64)
	us, _ = strconv.ParseFloat(found[2], 64)
	return us, calls
}
