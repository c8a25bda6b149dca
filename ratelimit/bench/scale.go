package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/zeromicro/go-zero/core/logx"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/rules"
)

// scene is one measurement of a fleet: processes that do the same.
type scene struct {
	name      string
	processes int
	cluster   bool
	job
}

// topic is scenes that differ in one thing.
type topic struct {
	name, differ string
	scenes       []scene
}

// plain is the work of perf tables: 64 callers of one process, 10,000 ids, two rules of a compact log.
func plain() scene {
	return scene{processes: 1, job: job{Callers: 64, IDs: ids, Limits: 1, Request: store.Request{Algorithm: compactLog, Rules: twoRules, Cost: 1}}}
}

// vary returns plain scenes that differ in what set sets.
func vary(values []int, set func(s *scene, n int)) (scenes []scene) {
	for _, n := range values {
		s := plain()
		s.name = strconv.Itoa(n)
		set(&s, n)
		scenes = append(scenes, s)
	}
	return scenes
}

var topics = []topic{
	{"Callers at once of one process", "callers", vary([]int{1, 4, 16, 64, 256}, func(s *scene, n int) { s.Callers = n })},
	{"Processes, 64 callers in all", "processes", vary([]int{1, 2, 4}, func(s *scene, n int) { s.processes, s.Callers = n, 64/n })},
	{"Ids", "ids", vary([]int{10, 100, 1000, 10_000, 100_000, 1_000_000}, func(s *scene, n int) { s.IDs = n })},
	{"Rules of a limit", "rules", vary([]int{1, 2, 4, 8}, func(s *scene, n int) { s.Request.Rules = eightRules[:n] })},
	{"Limits of a call, two rules each", "limits", vary([]int{1, 2, 4}, func(s *scene, n int) { s.Limits = n })},
	{"Counts of a rule, whose log is full, of 10 ids: compact-log", "count", vary(counts, func(s *scene, n int) { s.full(compactLog, n) })},
	{"Counts of a rule, whose log is full, of 10 ids: sliding-log", "count", vary(counts, func(s *scene, n int) { s.full(slidingLog, n) })},
	{"One server, and a cluster of 3 masters with a replica each, 2 processes", "", clusters()},
	{"One hot limit, as a limiter asks", "", hot()},
	{"Four processes that call up to 5,000 times a second each", "", paced()},
}

var counts = []int{10, 100, 1000, 10_000}

// eightRules are of ever longer windows, each of which can deny what those before it allow.
var eightRules = []rules.Rule{
	{Count: 10, Window: time.Second}, {Count: 100, Window: time.Minute}, {Count: 200, Window: 10 * time.Minute}, {Count: 300, Window: time.Hour},
	{Count: 400, Window: 6 * time.Hour}, {Count: 500, Window: 24 * time.Hour}, {Count: 600, Window: 48 * time.Hour}, {Count: 700, Window: 7 * 24 * time.Hour},
}

// full makes the calls those of few ids, of which most calls find the log as long as it gets.
func (s *scene) full(algorithm rules.Algorithm, count int) {
	s.IDs, s.Request.Algorithm = 10, algorithm
	s.Request.Rules = []rules.Rule{{Count: int64(count), Window: time.Duration(count) * 500 * time.Microsecond}}
	s.Warm = s.Request.Rules[0].Window
}

func clusters() []scene {
	one := plain()
	one.processes, one.Callers = 2, 32
	three := one
	one.name, three.name, three.cluster = "one server", "3 masters", true
	several := one
	several.name, several.Limits = "one server, 2 limits", 2
	spread := several
	spread.name, spread.cluster = "3 masters, 2 limits", true
	return []scene{one, three, several, spread}
}

// hot are calls of one id, allowed by the server or ahead, and denied by the server or from memory.
func hot() (scenes []scene) {
	for _, processes := range []int{1, 4} {
		s := plain()
		s.processes, s.Callers, s.IDs = processes, 64/processes, 1
		s.Request = store.Request{Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 100_000_000, Window: time.Second}}, Cost: 1}
		name := ", 1 process"
		if processes > 1 {
			name = fmt.Sprintf(", %d processes", processes)
		}
		asked, ahead, denied, remembered := s, s, s, s
		asked.name = "allowed, each call asks" + name
		ahead.name, ahead.Local, ahead.Request.Prefetch, ahead.Warm = "allowed, prefetch=100ms"+name, true, 100*time.Millisecond, 300*time.Millisecond
		denied.name, denied.Request = "denied, each call asks"+name, store.Request{Algorithm: compactLog, Rules: []rules.Rule{{Count: 1, Window: time.Hour}}, Cost: 1}
		remembered.name, remembered.Local, remembered.Request = "denied, remembered"+name, true, denied.Request
		scenes = append(scenes, asked, ahead, denied, remembered)
	}
	return scenes
}

// paced are calls as processes make them that have other work as well: of an id each, of one that is allowed, and of one that is denied.
func paced() []scene {
	s := plain()
	s.name, s.processes, s.Callers, s.Pause, s.Warm = "10,000 ids, each call asks", 4, 32, 6400*time.Microsecond, 500*time.Millisecond
	asked, remembered := s, s
	asked.name, asked.IDs = "one hot limit, allowed, each call asks", 1
	asked.Request = store.Request{Algorithm: rules.GCRA, Rules: []rules.Rule{{Count: 100_000_000, Window: time.Second}}, Cost: 1}
	ahead := asked
	ahead.name, ahead.Local, ahead.Request.Prefetch = "one hot limit, allowed, prefetch=100ms", true, 100*time.Millisecond
	longer := ahead
	longer.name, longer.Request.Prefetch, longer.Warm = "one hot limit, allowed, prefetch=500ms", 500*time.Millisecond, 1500*time.Millisecond
	remembered.name, remembered.IDs, remembered.Local = "one id, denied, remembered", 1, true
	remembered.Request.Rules = []rules.Rule{{Count: 1, Window: time.Hour}}
	return []scene{s, asked, ahead, longer, remembered}
}

// stage is what scenes are played on.
type stage struct {
	lab    *lab
	single *redistest.Server
	three  *redistest.Cluster
}

// servers are those that keep the scene's counts.
func (st *stage) servers(s *scene) (masters []*redistest.Server, addrs []string) {
	if s.cluster {
		if st.three == nil {
			st.three = redistest.StartCluster(st.lab)
		}
		return st.three.Masters, st.three.Addrs()
	}
	if st.single == nil {
		st.single = redistest.Start(st.lab)
	}
	return []*redistest.Server{st.single}, []string{st.single.Addr()}
}

// cost is what a scene has cost, of one call.
type cost struct {
	perSecond, server, own, micros, denied float64
}

// play plays a scene once.
func (st *stage) play(s scene, span time.Duration) (c cost, err error) {
	masters, addrs := st.servers(&s)
	var admins []*redis.Client
	for _, m := range masters {
		admin := redis.NewClient(&redis.Options{Addr: m.Addr()})
		defer admin.Close()
		if err := admin.FlushAll(context.Background()).Err(); err != nil {
			return c, err
		}
		admins = append(admins, admin)
	}
	s.Addrs, s.On = addrs, span
	var workers []*worker
	defer func() {
		for _, w := range workers {
			w.stop()
		}
	}()
	for range s.processes {
		w, err := startWorker(s.job)
		if err != nil {
			return c, err
		}
		workers = append(workers, w)
	}
	before, begin := spent(admins), time.Now()
	for _, w := range workers {
		if err := w.begin(); err != nil {
			return c, err
		}
	}
	var calls int64
	for _, w := range workers {
		d, err := w.end()
		if err != nil {
			return c, err
		}
		calls += d.Calls
		c.denied += float64(d.Denied)
		c.own += d.Own
		c.micros += d.Nanos / 1000 * float64(d.Calls)
	}
	n := float64(calls)
	if n == 0 {
		return c, errors.New("no calls were made")
	}
	return cost{
		perSecond: n / time.Since(begin).Seconds(), server: (spent(admins) - before) / n, own: c.own / n, micros: c.micros / n, denied: c.denied / n,
	}, nil
}

// spent is µs that the processors have spent on servers.
func spent(admins []*redis.Client) (micros float64) {
	for _, a := range admins {
		micros += (&lab{admin: a}).serverTime()
	}
	return micros
}

// scale plays all scenes whose topics match, and prints a table of each topic.
func scale(to io.Writer, l *lab, match func(string) bool, rounds int, span time.Duration) error {
	logx.Disable() // go-zero tells of the machine, by itself
	st := &stage{lab: l}
	for _, t := range topics {
		if !match(t.name) {
			continue
		}
		costs := make([][]cost, len(t.scenes))
		for range rounds {
			for i, s := range t.scenes {
				c, err := st.play(s, span)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", t.name, s.name, err)
				}
				costs[i] = append(costs[i], c)
			}
		}
		t.print(to, costs)
	}
	return nil
}

// print writes the medians as a table of Markdown.
func (t *topic) print(to io.Writer, costs [][]cost) {
	fmt.Fprintf(to, "### %s\n\n", t.name)
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "| %s\t| calls/s\t| server µs\t| client µs\t| µs to wait\t| denied\t|\n", cmp.Or(t.differ, "what"))
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---\t|", 6))
	for i, s := range t.scenes {
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %s\t| %.0f %%\t|\n", s.name,
			figure(costs[i], func(c cost) float64 { return c.perSecond }), figure(costs[i], func(c cost) float64 { return c.server }),
			figure(costs[i], func(c cost) float64 { return c.own }), figure(costs[i], func(c cost) float64 { return c.micros }),
			100*median(costs[i], func(c cost) float64 { return c.denied }))
	}
	w.Flush()
	fmt.Fprintln(to)
}

func median(costs []cost, of func(cost) float64) float64 {
	var all []float64
	for _, c := range costs {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// figure is the median with three digits that count.
func figure(costs []cost, of func(cost) float64) string {
	n := median(costs, of)
	if n < 0.0005 {
		return "0"
	}
	digits := max(0, 2-int(math.Floor(math.Log10(n))))
	return strconv.FormatFloat(n, 'f', digits, 64)
}
