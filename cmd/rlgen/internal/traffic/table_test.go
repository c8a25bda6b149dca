package traffic

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Fields in quotes are those that encoding/csv reads, and what is wrong with a line is what it says.
func TestFieldsInQuotes(t *testing.T) {
	const alphabet = `"",,ab ` + "\r"
	random := rand.New(rand.NewPCG(1, 1))
	list := [][]byte{[]byte("before")}
	plain := 0
	for range 50_000 {
		line := make([]byte, 1+random.IntN(12))
		for i := range line {
			line[i] = alphabet[random.IntN(len(alphabet))]
		}
		if bytes.IndexByte(line, '"') < 0 {
			continue
		}
		want, wrong := csv.NewReader(bytes.NewReader(line)).Read()
		got, err := fields(line, list)
		if fmt.Sprint(err) != fmt.Sprint(wrong) || string(got[0]) != "before" {
			t.Fatalf("fields(%q) = %q, %v, want %v behind what is there", line, got, err, wrong)
		}
		if wrong != nil {
			continue
		}
		plain++
		if g, w := fmt.Sprintf("%q", got[1:]), fmt.Sprintf("%q", want); g != w {
			t.Fatalf("fields(%q) = %s, want %s", line, g, w)
		}
	}
	if plain < 1000 {
		t.Errorf("%d lines have been right, want more", plain)
	}
	line := []byte(`"2026-01-02","a,b","",7,"` + strings.Repeat("x", 100) + `"`)
	var into [8][]byte
	if n := testing.AllocsPerRun(100, func() { fields(line, into[:0]) }); n != 0 {
		t.Errorf("a line of fields in quotes takes %v allocations, want none", n)
	}
}
