package main

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// program is the shop in a process of its own.
type program struct {
	url string
	log *buffer
}

// guard runs a program, and tells it to end once its own standard input does, which it does with the test, however that ends.
const guard = `"$@" & read -r line; kill "$!"; wait "$!"`

// run starts the shop, and stops it when the test ends.
func run(t *testing.T, redisURL string) *program {
	t.Helper()
	p := &program{log: &buffer{}}
	cmd := exec.Command("sh", "-c", guard, "sh", os.Args[0], "-addr", "127.0.0.1:0", "-grpc", "127.0.0.1:0", "-debug", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), programEnv+"=1", "REDIS_URL="+redisURL)
	cmd.Stderr = p.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the shop ended with %v, want 0:\n%s", err, p.log)
		}
	})
	if err := redistest.Poll(p.serves); err != nil {
		t.Fatalf("%v:\n%s", err, p.log)
	}
	return p
}

// A shop that cannot start says why, in one line, and exits with 1; and never says a password.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, with := range map[string][]string{
		"REDIS_URL: ":         {"bogus://:hunter2@x"},
		"-proxies: ":          {"", "-proxies", "nonsense"},
		"-addr: listen tcp ":  {"", "-addr", taken.Addr().String()},
		"-grpc: listen tcp ":  {"", "-grpc", taken.Addr().String()},
		"-debug: listen tcp ": {"", "-debug", taken.Addr().String()},
	} {
		args := append([]string{"-addr", "127.0.0.1:0", "-grpc", "127.0.0.1:0", "-debug", ""}, with[1:]...)
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Env = append(os.Environ(), programEnv+"=1", "REDIS_URL="+with[0])
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("the shop with %q ended with %v, want 1", with, err)
		}
		text := string(out)
		if !strings.Contains(text, want) || strings.Contains(text, "hunter2") || strings.Count(text, "ERROR") != 1 {
			t.Errorf("the shop with %q says\n%s\nwant one line of why it cannot start: %s", with, text, want)
		}
	}
}

var servesAt = regexp.MustCompile(`url=(http://\S+)`)

// serves returns an error until the program says where it serves.
func (p *program) serves() error {
	found := servesAt.FindStringSubmatch(p.log.String())
	if found == nil {
		return errors.New("the log does not say where the program serves")
	}
	p.url = found[1]
	return nil
}

// outages returns how many outages of the store began, and how many of them ended.
func (b *buffer) outages() (began, over int) {
	log := b.String()
	return strings.Count(log, "rate limit store cannot decide"), strings.Count(log, "rate limit store decides again")
}

var counted = regexp.MustCompile(`instances=(\d+)`)

// instances are the numbers of instances that the log says limits were divided by.
func (p *program) instances() (n []string) {
	for _, found := range counted.FindAllStringSubmatch(p.log.String(), -1) {
		n = append(n, found[1])
	}
	return n
}

// ask makes one call for a user, and returns the status, 0 where there was no answer.
func (p *program) ask(client *http.Client, user, method, path string) int {
	req, err := http.NewRequest(method, p.url+path, bytes.NewReader([]byte(`{"item":"tea"}`)))
	if err != nil {
		return 0
	}
	req.Header.Set("X-User", user)
	resp, err := client.Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// newClient returns a client whose connections end with the test.
func newClient(t *testing.T) *http.Client {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: loadWorkers}, Timeout: 30 * time.Second}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// A server that is stopped before it has begun to serve, where another cannot start, says nothing of it.
func TestStoppedBeforeItServes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := &buffer{}
	r := &rpc{grpc.NewServer(), slog.New(slog.NewTextHandler(said, nil))}
	r.server.Stop()
	r.serve(l)
	if said.String() != "" {
		t.Errorf("the server says %s, want nothing", said)
	}
}
