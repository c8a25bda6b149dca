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
	if err := conn.SetDeadline(time.Now().Add(50 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "MONITOR\r\n")
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR = %q, want +OK", lines.Text())
	}
	return lines
}

// TestNothingFollowsUnlock checks that a hold is renewed while it is held, and that the server executes none of its
// commands after Unlock or Release has returned.
func TestNothingFollowsUnlock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, semaphore := range map[string]bool{"lock": false, "semaphore": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lease = 1500 * time.Millisecond // renewed after each third
			client, lines := server.Client(t), monitor(t, server)
			next := func() string {
				if !lines.Scan() {
					t.Fatalf("MONITOR ends: %v", lines.Err())
				}
				return lines.Text()
			}
			hold := holder{t, newStore(t, client), semaphore}.must(name+"-name", 0, lock.WithLease(lease))
			for seen := 0; seen < 3; { // the acquisition and two renewals
				if line := next(); strings.Contains(line, `"evalsha"`) && strings.Contains(line, name+"-name") {
					seen++
				}
			}
			if err := hold.unlock(); err != nil {
				t.Fatal(err)
			}
			echo := func(text string) {
				if err := client.Echo(context.Background(), text).Err(); err != nil {
					t.Fatal(err)
				}
			}
			echo(name + " unlocked")
			for !strings.Contains(next(), name+" unlocked") {
			}
			renewals := time.NewTimer(lease * 2 / 3) // would be two
			<-renewals.C
			echo(name + " after")
			for line := next(); !strings.Contains(line, name+" after"); line = next() {
				if strings.Contains(line, name+"-name") {
					t.Errorf("after Unlock the server executed %s", line)
				}
			}
			if n := client.Exists(context.Background(), "rl:lock:{"+name+"-name}", "rl:sem:{"+name+"-name}").Val(); n != 0 {
				t.Errorf("%d keys are left, want none", n)
			}
		})
	}
}
