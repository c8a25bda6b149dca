package traffic

import "testing"

// A number is read as one, though it looks like a date at first, and a date though it is no number.
func TestTimes(t *testing.T) {
	for text, want := range map[string]int64{
		"2026-01-02T03:04:05Z":        1767323045000000,
		"2026-01-02 03:04:05":         1767323045000000,
		"2026-01-02T03:04:05.5+01:00": 1767319445500000,
		"2026-01-02T03:04:05+0000":    1767323045000000,
		"2026-01-02T03:04:05.5+0100":  1767319445500000,
		"2026-01-02T03:04:05.5+01":    1767319445500000,
		"2026-01-02 03:04:05+0100":    1767319445000000,
		"2026-01-02 03:04:05.25+01":   1767319445250000,
		"2026-01-02 03:04:05 +0100":   1767319445000000,
		"2026-01-02t03:04:05z":        1767323045000000,
		"2026-01-02T03:04:05z":        1767323045000000,
		"2026-01-02t03:04:05.5+01:00": 1767319445500000,
		"2026-01-02 03:04:05z":        1767323045000000,
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

// A clock reads each time, whatever it has read before: one that is wrong changes nothing.
func TestClock(t *testing.T) {
	c := clock{read: parseTime}
	for _, test := range []struct {
		text string
		want int64
	}{{"1", 1e6}, {"1", 1e6}, {"2", 2e6}, {"never", -1}, {"never", -1}, {"2", 2e6}, {"", -1}, {"1", 1e6}, {"10", 10e6}} {
		if got, err := c.parse([]byte(test.text)); (err != nil) != (test.want < 0) || err == nil && got != test.want {
			t.Errorf("parse(%q) = %d, %v, want %d", test.text, got, err, test.want)
		}
	}
}
