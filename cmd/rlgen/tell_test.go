package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/live"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// told returns what a command line tells, and what it prints.
func toldBy(t *testing.T, url string, line ...string) (all []told, text string) {
	t.Helper()
	var out, errs bytes.Buffer
	of := operations[line[0]]
	o := (&command{stdout: &out, stderr: &errs}).operateFlags(line[0], of)
	if err := o.Parse(line[1:]); err != nil {
		t.Fatal(err)
	}
	if err := o.readArgs(); err != nil {
		t.Fatal(err)
	}
	at, err := live.Find(url, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.in(context.Background(), at, of); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return o.told, out.String()
}

// TestTextIsMadeOfJSON: what an operation prints as text it prints as JSON, too, whatever there was to do: the text is made of the JSON alone.
func TestTextIsMadeOfJSON(t *testing.T) {
	server := redistest.Start(t)
	url := "redis://" + server.Addr()
	limits := filepath.Join(t.TempDir(), "limits.json")
	err := os.WriteFile(limits, []byte(`[{"package": "example.com/m", "type": "m.Orders", "method": "Create", "limits": [
		{"directive": "//ratelimit:user 3,1h 9,24h ban=15m after=5"},
		{"directive": "//ratelimit:global 9,1h mode=shadow"},
		{"directive": "//ratelimit:concurrency 3 per=user"}]}]`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("limits:\n  Create/global/shadow: off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range []string{
		"keys Create user=alice global",
		"peek Create user=alice global",
		"reset Create user=alice",
		"grant Create user=alice 2", // of whom all is left
		"unban Create user=alice",   // who is not banned
		"unban -dry-run Create user=alice",
		"ban -dry-run Create user=alice 15m",
		"ban Create user=alice 15m",
		"peek Create user=alice",
		"keys Create user=alice",
		"grant -dry-run Create user=alice 2",
		"unban -dry-run Create user=alice",
		"ban -dry-run Create user=alice 1h",
		"unban Create user=alice",
		"reset -dry-run Create user=alice global",
		"reset -overrides FILE Create global",
		"override",
		"override remove Create/user",
		"override -dry-run set Create/user 5,1h Create/global/shadow 8,1h",
		"override set Create/user 5,1h Create/global/shadow 8,1h",
		"override set Create/user off",
		"override list",
		"override -dry-run -overrides redis -overrides FILE set Create/global/shadow 7,1h",
		"override -overrides redis -overrides FILE remove Create/global/shadow",
		"override remove Create/user",
		"override -overrides FILE remove Create/global/shadow",
	} {
		words := strings.Fields(strings.ReplaceAll(line, "FILE", file))
		all, text := toldBy(t, url, append([]string{words[0], "-limits", limits}, words[1:]...)...)
		var again bytes.Buffer
		for _, v := range all {
			raw, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			read := reflect.New(reflect.TypeOf(v))
			if err := json.Unmarshal(raw, read.Interface()); err != nil {
				t.Fatal(err)
			}
			read.Elem().Interface().(told).print(&again)
		}
		if len(all) == 0 {
			again.WriteString("no overrides in Redis\n")
		}
		if got := strings.ReplaceAll(text, "\n\n", "\n"); got != again.String() || got == "" {
			t.Errorf("rlgen %s prints\n%s\nand the text that is made of its JSON is\n%s", line, text, &again)
		}
		seen[words[0]] = true
	}
	for name := range operations {
		if !seen[name] {
			t.Errorf("rlgen %s is not tried", name)
		}
	}
}

// TestIdleIsToldInJSON: of whom there is nothing to do for, JSON says so.
func TestIdleIsToldInJSON(t *testing.T) {
	url := "redis://" + redistest.Start(t).Addr()
	limits := filepath.Join(t.TempDir(), "limits.json")
	if err := os.WriteFile(limits, []byte(`[{"package": "m", "type": "m.Orders", "method": "Create", "limits": [{"directive": "//ratelimit:user 3,1h ban=15m after=5"}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"grant Create user=alice 2":      `{"done":"nothing to grant, for all is left","idle":true,`,
		"unban Create user=alice":        `{"done":"not banned, and the denials are forgotten","idle":true,`,
		"reset Create user=alice":        `{"done":"reset","method":"m.Orders.Create",`,
		"ban -dry-run Create user=b 15m": `{"done":"would ban for 15m","dryRun":true,`,
		"override remove Create":         `{"done":"nothing","name":"Create","directive":true}`,
	} {
		words := strings.Fields(line)
		all, _ := toldBy(t, url, append([]string{words[0], "-limits", limits}, words[1:]...)...)
		raw, err := json.Marshal(all)
		if err != nil || !strings.HasPrefix(string(raw), "["+want) {
			t.Errorf("rlgen %s tells %s, %v, want %s", line, raw, err, want)
		}
	}
}

// TestIDsAreQuoted: an id with letters that are not to be seen is told as a Go string, on one line.
func TestIDsAreQuoted(t *testing.T) {
	url := "redis://" + redistest.Start(t).Addr()
	limits := filepath.Join(t.TempDir(), "limits.json")
	if err := os.WriteFile(limits, []byte(`[{"package": "m", "type": "m.Orders", "method": "Create", "limits": [{"directive": "//ratelimit:user 3,1h ban=15m after=5"}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"peek"}, {"keys"}, {"reset"}, {"grant", "1"}, {"ban", "15m"}, {"unban"}} {
		args := append([]string{line[0], "-limits", limits, "Create", "user=a\n  Create/user\t\x1b[2J"}, line[1:]...)
		if _, text := toldBy(t, url, args...); strings.Count(text, `"user=a\n  Create/user\t\x1b[2J"`) != 1 || strings.Contains(text, "user=a\n") {
			t.Errorf("rlgen %s of an id with a line end prints %q, want it quoted", line[0], text)
		}
	}
}
