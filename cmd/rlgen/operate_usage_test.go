package main

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

const usageLimits = `[
	{"package": "example.com/m", "type": "m.Orders", "method": "Create", "limits": [{"directive": "//ratelimit:user 3,1h"}, {"directive": "//ratelimit:ip 3,1h"}]},
	{"package": "example.com/m", "type": "m.Mail", "method": "Create", "limits": [{"directive": "//ratelimit:user 3,1h"}]},
	{"package": "example.com/m", "type": "m.Orders", "method": "Find", "limits": [{"directive": "//ratelimit:user 2,1h plan=free"}, {"directive": "//ratelimit:user 9,1h plan=pro"}]},
	{"package": "example.com/m", "type": "m.Orders", "method": "Login", "limits": [{"directive": "//ratelimit:ip 2,1h ban=15m after=5"}]},
	{"package": "example.com/m", "type": "m.Orders", "method": "Pay", "limits": [{"directive": "//ratelimit:lock"}, {"directive": "//ratelimit:user 5,1h algo=leaky-bucket wait=1m"}]}
]`

// What somebody at the shell has got wrong is exit code 2 and a line that says what was found and what is wanted, for every command that it may be given to; what the
// world has got wrong is exit code 1.
func TestOperationsExitCodes(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"limits.json": usageLimits, "text.json": "text", "numbers.json": "[1]", "empty": "", "directive.json": `[{"type": "m.M", "method": "F", "limits": [{"directive": "//ratelimit:user x"}]}]`,
		"short": "short\n", "secret": "0123456789abcdef\n", "bad.yaml": "limits: [", "unknown.yaml": "limits:\n  Nothing: off\n", "two-lines": "redis://a\nredis://b\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	client := server.Client(t)
	for _, key := range []string{"wrong", "unknown"} {
		value := map[string]any{"wrong": "a string", "unknown": nil}[key]
		if value != nil {
			client.Set(t.Context(), key, value, 0)
		} else {
			client.HSet(t.Context(), key, "Nothing", "off")
		}
	}
	const all = "peek keys reset grant ban unban override" // a command is called with the words that it wants besides
	behind := map[string]string{
		"peek": "Login ip=192.0.2.1", "keys": "Login ip=192.0.2.1", "reset": "Login ip=192.0.2.1", "unban": "Login ip=192.0.2.1",
		"grant": "Login ip=192.0.2.1 1", "ban": "Login ip=192.0.2.1 1m", "override": "list",
	}
	const byID = "peek keys reset grant ban unban"
	for _, c := range []struct {
		commands, flags, words string // words in place of those of the command
		code                   int
		says                   string
	}{
		{commands: all},
		{commands: all, flags: "-limits none.json", code: 2, says: `-limits: open none.json: no such file`},
		{commands: all, flags: "-limits dir", code: 2, says: `-limits: .*is a directory`},
		{commands: all, flags: "-limits text.json", code: 2, says: `-limits: text.json: .*; want what rlgen list -json prints`},
		{commands: all, flags: "-limits numbers.json", code: 2, says: `-limits: numbers.json: .*; want what rlgen list -json prints`},
		{commands: all, flags: "-limits empty", code: 2, says: `-limits: empty: .*; want what rlgen list -json prints`},
		{commands: all, flags: "-limits directive.json", code: 2, says: `-limits: directive.json: m.M.F: .*found "x", want rules`},
		{commands: all, flags: "-overrides none.yaml", code: 2, says: `-overrides: open none.yaml: no such file`},
		{commands: all, flags: "-overrides dir", code: 2, says: `-overrides: .*is a directory`},
		{commands: all, flags: "-overrides bad.yaml", code: 2, says: `bad.yaml: .*want "limits:"`},
		{commands: byID, flags: "-overrides unknown.yaml", code: 2, says: `unknown.yaml:2:12: unknown limit "Nothing"`},
		{commands: byID, flags: "-overrides redis -overrides-key unknown", code: 1, says: `unknown: unknown limit "Nothing"`},
		{commands: byID, flags: "-overrides redis -overrides-key wrong", code: 1, says: `redis hash wrong: .*WRONGTYPE`},
		{commands: "override", flags: "-overrides-key unknown", code: 1, says: `unknown limit "Nothing"`},
		{commands: all, flags: "-redis-file none", code: 2, says: `-redis-file: open none: no such file`},
		{commands: all, flags: "-redis-file dir", code: 2, says: `-redis-file: .*is a directory`},
		{commands: all, flags: "-redis-file empty", code: 2, says: `-redis-file: empty: found no line or several, want one`},
		{commands: all, flags: "-redis-file two-lines", code: 2, says: `-redis-file: two-lines: found no line or several, want one`},
		{commands: all, flags: "-redis bogus://x", code: 2, says: `another scheme, want redis`},
		{commands: all, flags: "-redis redis://u:p@h", code: 2, says: `found a password behind -redis`},
		{commands: all, flags: "-redis redis://h -redis-file short", code: 2, says: `found -redis and -redis-file, want one of them`},
		{commands: all, flags: "-redis redis://127.0.0.1:1", code: 1, says: `the Redis cannot be asked: .*refused`},
		{commands: all, flags: "-timeout 0s", code: 2, says: `-timeout: found 0s, want more than 0`},
		{commands: all, flags: "-timeout soon", code: 2, says: `invalid value "soon" for flag -timeout`},
		{commands: all, flags: "-nothing", code: 2, says: `flag provided but not defined: -nothing`},
		{commands: byID, flags: "-hash-secret none", code: 2, says: `-hash-secret: open none: no such file`},
		{commands: byID, flags: "-hash-secret dir", code: 2, says: `-hash-secret: .*is a directory`},
		{commands: byID, flags: "-hash-secret short", code: 2, says: `-hash-secret: found 5 bytes in short, want 16 or more`},
		{commands: byID, flags: "-hash-secret secret"},
		{commands: byID, flags: "-ipv6-prefix 129", code: 2, says: `-ipv6-prefix: found 129, want 1 to 128 bits`},
		{commands: byID, flags: "-lock-prefix a{b", code: 2, says: `-lock-prefix: .*"a{b" has '{'`},
		{commands: byID, flags: "-limit Login/i", code: 2, says: `found the limit name "Login/i"`},
		{commands: "peek keys reset unban", words: "Login ip=nobody", code: 2, says: `found the id "ip=nobody", which is no address`},
		{commands: "peek keys reset unban", words: "Login alice", code: 2, says: `found the id "alice", want ip=<address>`},
		{commands: "peek keys reset unban", words: "Login user=alice", code: 2, says: `found the id "user=alice", and no limit of m.Orders.Login counts by user, want ip=<address>`},
		{commands: "peek keys reset unban", words: "Login ip=", code: 2, says: `found the id "ip=", which is no address`},
		{commands: "peek keys reset", words: "Pay user=", code: 2, says: `found no user in the id, want one`},
		{commands: "peek keys reset unban", words: "Create user=alice", code: 2, says: `2 limited methods are called Create, want one of m.Mail.Create, m.Orders.Create`},
		{commands: "peek keys reset unban", words: "Lgoin ip=192.0.2.1", code: 2, says: `no limited method Lgoin; did you mean Login\?`},
		{commands: "peek keys reset unban grant ban", words: "Login", code: 2, says: `want (a method and ids|how many permits|for how long|a duration)`},
		{commands: "peek keys reset unban grant ban", words: "-", code: 2, says: `want`},
		{commands: "peek keys reset unban", words: "Login ip=192.0.2.1 -json", code: 2, says: `found "-json" behind the method, want flags before it`},
		{commands: "peek keys reset", flags: "-plan gold", words: "Find user=alice", code: 2, says: `plan "gold", want one of free, pro`},
		{commands: "grant", words: "Login ip=192.0.2.1 0", code: 2, says: `found "0", want how many permits`},
		{commands: "grant", words: "Login ip=192.0.2.1 3", code: 2, says: `found a grant of 3, want 1 to 2`},
		{commands: "grant", words: "Pay user=alice 3", code: 2, says: `a queue, a lock and a concurrency are granted nothing`},
		{commands: "reset", words: "Pay global", code: 2, says: `a lock and a concurrency are not reset`},
		{commands: "ban", words: "Login ip=192.0.2.1 0s", code: 2, says: `found "0s", want a duration`},
		{commands: "ban", words: "Find user=alice 1m", code: 2, says: `a limit bans that has ban= and after=`},
		{commands: "override", words: "sett Login 3,1h", code: 2, says: `found "sett Login 3,1h", want list, set .* did you mean set\?`},
		{commands: "override", words: "set Login", code: 2, says: `want list, set name text`},
		{commands: "override", words: "set Login 3,1x", code: 2, says: `nothing is set`},
		{commands: "override", words: "set Logn 3,1h", code: 2, says: `did you mean "Login/ip"|unknown limit "Logn"`},
		{commands: "override", words: "remove Logn", code: 2, says: `unknown limit "Logn"`},
		{commands: "override", words: "remove Login Login", code: 2, says: `found "Login" twice`},
	} {
		for name := range strings.FieldsSeq(c.commands) {
			args := append([]string{name}, strings.Fields(c.flags)...)
			if !strings.Contains(c.flags, "-limits") {
				args = append(args, "-limits", "limits.json")
			}
			args = append(args, strings.Fields(cmp.Or(c.words, behind[name]))...)
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				code := (&command{stdout: &stdout, stderr: &stderr}).run(context.Background(), args)
				if found, err := regexp.MatchString(c.says, stderr.String()); code != c.code || err != nil || !found {
					t.Errorf("exit code %d, want %d, and said %q, want %s", code, c.code, stderr.String(), c.says)
				}
				if code == 2 && stdout.Len() > 0 {
					t.Errorf("wrong usage has printed %q", stdout.String())
				}
			})
		}
	}
}
