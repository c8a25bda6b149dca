package rules_test

import (
	"net/netip"
	"testing"

	"github.com/rlgen/rlgen/rules"
)

func TestAddressID(t *testing.T) {
	for text, want := range map[string]string{
		"203.0.113.7":              "203.0.113.7",
		"::ffff:203.0.113.7":       "203.0.113.7",
		"203.0.113.7:80":           "203.0.113.7",
		"2001:db8:1:2:3:4:5:6":     "2001:db8:1:2::",
		"[2001:db8:1:2:3:4:5:6]":   "2001:db8:1:2::",
		"[2001:db8::1]:80":         "2001:db8::",
		"fe80::1%eth0":             "fe80::",
		"[fe80::1%evil:{x}]:443":   "fe80::",
		"":                         "",
		"[":                        "",
		"[]":                       "",
		"unknown":                  "",
		"203.0.113.7, 203.0.113.8": "",
		"203.0.113.007":            "",
	} {
		if got := rules.ParseAddressID(text, rules.DefaultIPv6Prefix); got != want {
			t.Errorf("ParseAddressID(%q) = %q, want %q", text, got, want)
		}
	}
	addr := netip.MustParseAddr("2001:db8:1:2ff::1")
	for bits, want := range map[int]string{128: "2001:db8:1:2ff::1", 56: "2001:db8:1:200::"} {
		if got := rules.AddressID(addr, bits); got != want {
			t.Errorf("AddressID(%v, %d) = %q, want %q", addr, bits, got, want)
		}
	}
	if got := rules.AddressID(netip.Addr{}, 64); got != "" {
		t.Errorf("AddressID of no address = %q, want none", got)
	}
}
