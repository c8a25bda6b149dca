package rules_test

import (
	"strings"
	"testing"

	"github.com/rlgen/rlgen/rules"
)

func TestBrief(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""},
		{"20,1s", 5, "20,1s"},
		{"20,1s!", 5, "20,1s… (and 1 bytes more)"},
		{"üüü", 3, "ü… (and 4 bytes more)"},
		{"üüü", 4, "üü… (and 2 bytes more)"},
		{"ü", 1, "… (and 2 bytes more)"},
		{"\x80\x80\x80", 1, "… (and 3 bytes more)"},
		{"a", -1, "… (and 1 bytes more)"},
		{strings.Repeat("x", 45_000), 10, "xxxxxxxxxx… (and 44990 bytes more)"},
	} {
		if got := rules.Brief(test.text, test.most); got != test.want {
			t.Errorf("Brief(%.20q, %d) = %q, want %q", test.text, test.most, got, test.want)
		}
	}
}
