package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/denycache"
	"github.com/rlgen/rlgen/ratelimit/internal/prefetch"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// job is what one process of a fleet does: its callers ask for ids at random, each call for some limits.
type job struct {
	Addrs    []string // of the server, or of the nodes of a cluster
	Callers  int
	IDs      int
	Limits   int           // of a call
	Request  store.Request // of each limit, but for the key
	Local    bool          // as a limiter asks: what is denied is remembered, and permits are taken ahead
	Pause    time.Duration // of each caller behind each call
	Warm, On time.Duration // for how long it calls before it is ready, and then
}

// done is what a process has done.
type done struct {
	Calls, Denied int64
	Own           float64 // µs of the processors
	Nanos         float64 // of a call
}

// worker is a process at work.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startWorker runs this program for j, and waits until it is ready.
func startWorker(j job) (*worker, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.Command(self, "-worker", string(text))}
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := w.out.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("a worker that does not get ready: %w", err)
	}
	return w, nil
}

// begin lets the process call.
func (w *worker) begin() error {
	_, err := fmt.Fprintln(w.in)
	return err
}

// end waits until it has.
func (w *worker) end() (d done, err error) {
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return d, err
	}
	return d, json.Unmarshal(line, &d)
}

// stop lets the process end.
func (w *worker) stop() {
	w.in.Close()
	w.cmd.Wait()
}

// work is what a worker runs: it says when it is ready, waits for a line, and says what it has done. It ends when nobody listens any more.
func work(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	s, err := j.open()
	if err != nil {
		return err
	}
	keys := j.keys()
	if _, err := j.call(s, keys, max(j.Warm, time.Millisecond)); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	d, err := j.call(s, keys, j.On)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(d); err != nil {
		return err
	}
	_, _ = in.ReadString('\n')
	return nil
}

func (j *job) open() (store.Store, error) {
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: j.Addrs, ContextTimeoutEnabled: true})
	s, err := redisstore.New(client, redisstore.WithBudget(10*time.Second))
	if err != nil || !j.Local {
		return s, err
	}
	return prefetch.New(denycache.New(s, nil)), nil
}

// keys are those of each limit, by id.
func (j *job) keys() [][]string {
	all := make([][]string, j.Limits)
	for i := range all {
		for id := range j.IDs {
			all[i] = append(all[i], "rl:user="+strconv.Itoa(id)+":orders.Orders-Create"+strconv.Itoa(i))
		}
	}
	return all
}

// call lets all callers call for a while.
func (j *job) call(s store.Store, keys [][]string, span time.Duration) (done, error) {
	var (
		stop          atomic.Bool
		calls, denied atomic.Int64
		failed        atomic.Pointer[error]
		callers       sync.WaitGroup
	)
	own, begin := ownTime(), time.Now()
	timer := time.AfterFunc(span, func() { stop.Store(true) })
	defer timer.Stop()
	for range j.Callers {
		callers.Go(func() {
			n, refused, err := j.repeat(s, keys, &stop)
			calls.Add(n)
			denied.Add(refused)
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	callers.Wait()
	if err := failed.Load(); err != nil {
		return done{}, *err
	}
	n := calls.Load()
	return done{Calls: n, Denied: denied.Load(), Own: ownTime() - own, Nanos: float64(time.Since(begin)) * float64(j.Callers) / float64(max(1, n))}, nil
}

// repeat is one caller.
func (j *job) repeat(s store.Store, keys [][]string, stop *atomic.Bool) (calls, denied int64, err error) {
	random, out := rand.New(rand.NewPCG(rand.Uint64(), 1)), new(store.Outcome)
	requests := make([]store.Request, j.Limits)
	for ; !stop.Load(); calls++ {
		id := random.IntN(j.IDs)
		for i := range requests {
			requests[i] = j.Request
			requests[i].Key = keys[i][id]
		}
		if err := s.Take(context.Background(), requests, false, out); err != nil {
			return calls, denied, err
		}
		if !out.Allowed {
			denied++
		}
		if j.Pause > 0 {
			time.Sleep(j.Pause)
		}
	}
	return calls, denied, nil
}
