package traffic

import "testing"

// A number is read as one, though it looks like a date at first, and a date though it is no number.
func TestTimes(t *testing.T) {
	for text, want := range map[string]int64{
		"2026-01-02T03:04:05Z":        1767323045000000,
		"2026-01-02 03:04:05":         1767323045000000,
		"2026-01-02T03:04:05.5+01:00": 1767319445500000,
		"02/Jan/2006:15:04:05 +0000":  1136214245000000,
		"1000e-3":                     1000000,
		"1700000000":                  1700000000000000,
		"1700000000.25":               1700000000250000,
		"1.7637e18":                   1763700000000000,
		"1.7637e+15":                  1763700000000000,
		"1763700000000000001.5":       1763700000000000,
		"1763700000123456789":         1763700000123456,
		"9300000000000000000":         9300000000000000,
		"99999999999999":              99999999999999000,
		"00001700000000":              1700000000000000,
	} {
		if got, err := parseTime(text); err != nil || got != want {
			t.Errorf("parseTime(%q) = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "2026-01-02", "-1", "now", "0000-", "0x1p30", "0X1P30", "0x_1p30", "1e19", "1e400", "inf", "Infinity", "nan", "0b1", "1_000"} {
		if got, err := parseTime(text); err == nil {
			t.Errorf("parseTime(%q) = %d, want an error", text, got)
		}
	}
}
