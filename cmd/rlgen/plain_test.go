package main

import (
	"bytes"
	"encoding/json"
	"testing"
)

// Nothing that others have written does anything to the terminal of who reads it.
func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"two lines\n\tof letters, äé漢\U0001f600": "two lines\n\tof letters, äé漢\U0001f600",
		"\x1b]0;title\a\x1b[2J":                  `\u001b]0;title\u0007\u001b[2J`,
		"over\rwritten\b\x7f\x00":                `over\u000dwritten\u0008\u007f\u0000`,
		"\u009b31m c1":                           `\u009b31m c1`,
		"round \u202e about\u2066":               `round \u202e about\u2066`,
		"tag \U000e0041":                         `tag \udb40\udc41`,
		"no letter \x9b \xff":                    `no letter \x9b \xff`,
		"\ufffd":                                 "\ufffd",
	} {
		var b bytes.Buffer
		if n, err := (plain{&b}).Write([]byte(text)); n != len(text) || err != nil || b.String() != want {
			t.Errorf("Write(%q) = %d, %v and writes %q, want %d and %q", text, n, err, b.String(), len(text), want)
		}
	}
}

// JSON stays what it is.
func TestPlainJSON(t *testing.T) {
	const text = "\x1b[2J \u009b \u202e \U000e0041 \x7f \n"
	var b bytes.Buffer
	if err := printJSON(plain{&b}, text); err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsFunc(b.Bytes(), moves) {
		t.Errorf("JSON is written as %q, want letters alone", b.String())
	}
	var got string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got != text {
		t.Errorf("JSON reads %q, %v, want %q", got, err, text)
	}
}

func TestShown(t *testing.T) {
	for text, want := range map[string]string{"Create/user": "Create/user", "20,1s wait=2s": "20,1s wait=2s", "a\nb": `"a\nb"`, "\x1b[m": `"\x1b[m"`, "\xff": `"\xff"`} {
		if got := shown(text); got != want {
			t.Errorf("shown(%q) = %s, want %s", text, got, want)
		}
	}
}
