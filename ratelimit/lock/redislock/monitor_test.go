package redislock_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/ratelimit/lock"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// monitor returns the commands that a server executes from now on, a line each.
func monitor(t *testing.T, server *redistest.Server) *bufio.Scanner {
	t.Helper()
	conn, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "MONITOR\r\n")
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR = %q, want +OK", lines.Text())
	}
	return lines
}

// TestNothingFollowsUnlock holds that a hold is renewed while it is held, and that no command of it is executed after its
// Unlock or Release has returned.
func TestNothingFollowsUnlock(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	s := newStore(t, client)
	const lease = 200 * time.Millisecond
	l := newLocker(t, s, lock.WithLease(lease))
	sem, err := lock.NewSemaphore(s, 1, lock.WithLease(lease))
	if err != nil {
		t.Fatal(err)
	}
	for name, hold := range map[string]func() func() error{
		"lock": func() func() error {
			_, h, err := l.Lock(context.Background(), "lock-name")
			if err != nil {
				t.Fatal(err)
			}
			return h.Unlock
		},
		"semaphore": func() func() error {
			_, p, err := sem.Acquire(context.Background(), "semaphore-name")
			if err != nil {
				t.Fatal(err)
			}
			return p.Release
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines := monitor(t, server)
			unlock := hold()
			for seen := 0; seen < 4; { // the acquisition and three renewals
				if !lines.Scan() {
					t.Fatal(lines.Err())
				}
				if strings.Contains(lines.Text(), `"evalsha"`) && strings.Contains(lines.Text(), name+"-name") {
					seen++
				}
			}
			if err := unlock(); err != nil {
				t.Fatal(err)
			}
			echo := func(text string) {
				if err := client.Echo(context.Background(), text).Err(); err != nil {
					t.Fatal(err)
				}
			}
			echo("unlocked")
			after := time.NewTimer(2 * lease)
			<-after.C
			echo("after")
			for gone := false; ; {
				if !lines.Scan() {
					t.Fatal(lines.Err())
				}
				switch line := lines.Text(); {
				case strings.Contains(line, `"after"`):
					return
				case strings.Contains(line, `"unlocked"`):
					gone = true
				case gone && strings.Contains(line, name+"-name"):
					t.Errorf("after Unlock the server executed %s", line)
				}
			}
		})
	}
	if n := client.Exists(context.Background(), "rl:lock:{lock-name}", "rl:sem:{semaphore-name}").Val(); n != 0 {
		t.Errorf("%d keys are left, want none", n)
	}
}
