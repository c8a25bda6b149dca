package traffic

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/rules"
)

// Calls of more lines than a block has are all there, each with its names, and what stands between them is too.
func TestBlocks(t *testing.T) {
	const lines = 3*mostCalls + 7
	var text strings.Builder
	text.WriteString("time,user,address,key\n")
	for i := range lines {
		fmt.Fprintf(&text, "%d,user-%d,10.0.0.%d,%s\n", i, i%500, i%200, []string{"", "k"}[i%2])
		if i%100 == 0 {
			text.WriteString("\nnonsense\n")
		}
	}
	r := reader(t, Log{}, text.String())
	for i := range lines {
		var c Call
		if err := r.Next(&c); err != nil {
			t.Fatal(err)
		}
		got := [...]string{c.User.String(), c.Addr.String(), c.Key.String()}
		want := [...]string{fmt.Sprint("user-", i%500), fmt.Sprint("10.0.0.", i%200), []string{"", "k"}[i%2]}
		if got != want || c.At != int64(i)*1e6 || c.Cost != 1 {
			t.Fatalf("call %d is %+v of %q, want one of %q", i, c, got, want)
		}
	}
	if err := r.Next(new(Call)); err != io.EOF || r.Bad != lines/100+1 || r.Lines != lines+r.Bad {
		t.Errorf("behind the last call error %v, %d bad of %d lines, want the end, %d of %d", err, r.Bad, r.Lines, lines/100+1, lines+lines/100+1)
	}
}

// Of lines that are long a block has few.
func TestBlockOfLongLines(t *testing.T) {
	long := strings.Repeat("x", mostTexts/4)
	var text strings.Builder
	text.WriteString("time,user\n")
	for i := range 100 {
		fmt.Fprintf(&text, "%d,%s%d\n", i, long, i)
	}
	r := reader(t, Log{}, text.String())
	for i := range 100 {
		var c Call
		if err := r.Next(&c); err != nil || c.User.Text != fmt.Sprint(long, i) {
			t.Fatalf("call %d: error %v, a user of %d bytes, want %d", i, err, len(c.User.String()), len(long)+2)
		}
	}
	if n := cap(r.block.texts); n > 4*mostTexts {
		t.Errorf("a block has room for texts of %d bytes, want %d and that of a line, or a little more", n, mostTexts)
	}
}

// The first line that cannot be read ends a strict log behind the calls before it.
func TestBlockThatEnds(t *testing.T) {
	r := reader(t, Log{Strict: true}, "time,user\n1,a\n2,b\nnever,c\n3,d\n")
	users := ""
	for {
		var c Call
		if err := r.Next(&c); err != nil {
			if err == io.EOF || users != "ab" {
				t.Errorf("users %q and error %v, want ab and what is wrong with the third", users, err)
			}
			return
		}
		users += c.User.Text
	}
}

// addresses by what they count by.
var addresses = map[string]string{
	"10.0.0.1": "10.0.0.1", "0.0.0.0": "0.0.0.0", "255.255.255.255": "255.255.255.255", "::ffff:10.0.0.1": "10.0.0.1", "::FFFF:a00:1": "10.0.0.1",
	"10.0.0.1:80": "10.0.0.1", "[::ffff:10.0.0.1]:80": "10.0.0.1", "2001:db8::1": "2001:db8::", "2001:DB8::2": "2001:db8::", "2001:db8:0:0:1::": "2001:db8::",
	"[2001:db8::1]": "2001:db8::", "[2001:db8::1%eth0]:443": "2001:db8::", "fe80::1%eth0": "fe80::", "2001:db8:0:1::1": "2001:db8:0:1::",
	"": "", "unix:": "", "10.0.0": "", "10.0.0.1.": "", ".10.0.0.1": "", "10.0.0.0.1": "", "10..0.1": "", "10.0.0.01": "", "10.0.0.256": "", "10.0.0.1000000000000000000000": "",
	"10.0.0.00": "", "10.0.0.1x": "", "10.0.0.:": "", "1.2.3.": "", "10.0.0./": "", "localhost": "",
}

// Addresses in all their forms, and those of one network, count as one; what is no address counts as none.
func TestAddressID(t *testing.T) {
	var text strings.Builder
	text.WriteString("time,address\n")
	var want []string
	for from, to := range addresses {
		if got := string(AddressID([]byte(from))); got != to {
			t.Errorf("AddressID(%q) = %q, want %q", from, got, to)
		}
		fmt.Fprintf(&text, "1,%s\n", from)
		want = append(want, to)
	}
	r := reader(t, Log{}, text.String())
	names := map[string]*Name{}
	for _, id := range want {
		var c Call
		if err := r.Next(&c); err != nil {
			t.Fatal(err)
		}
		if first, ok := names[id]; c.Addr.String() != id || ok && c.Addr != first {
			t.Errorf("a call has the address %v at %p, want %q at %p as others have it", c.Addr, c.Addr, id, first)
		}
		names[id] = c.Addr
	}
}

func FuzzAddressID(f *testing.F) {
	for text := range addresses {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := string(AddressID([]byte(text))), rules.ParseAddressID(text, rules.DefaultIPv6Prefix); got != want {
			t.Errorf("AddressID(%q) = %q, want %q", text, got, want)
		}
	})
}

// A text that is an address, a user and a key has three names.
func TestNamesOfColumns(t *testing.T) {
	r := reader(t, Log{}, "time,address,user,key\n1,10.0.0.1,10.0.0.1,10.0.0.1\n")
	var c Call
	if err := r.Next(&c); err != nil || c.Addr == c.User || c.User == c.Key || c.Key == c.Addr {
		t.Errorf("names at %p, %p and %p, error %v, want three", c.Addr, c.User, c.Key, err)
	}
}

func reader(t *testing.T, log Log, text string) *Reader {
	t.Helper()
	r, err := log.Read(File{Name: "log", Reader: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A queue gives what came by its time, those of one time as they came, however much of it is given before it grows.
func TestQueue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var q queue
	var want []Call
	latest, given := int64(0), 0
	for len(want) < 20*fewestQueued {
		for range r.IntN(3 * fewestQueued) {
			latest += r.Int64N(3)
			want = append(want, Call{At: max(0, latest-r.Int64N(50)*r.Int64N(2)), Cost: int64(len(want))})
			q.put(&want[len(want)-1])
		}
		slices.SortStableFunc(want[given:], func(a, b Call) int { return int(a.At - b.At) })
		for n := r.IntN(2 * fewestQueued); n > 0 && q.first() != nil && q.first().At < latest-50; n-- {
			if got := q.first().Call; got != want[given] {
				t.Fatalf("call %d is %+v, want %+v", given, got, want[given])
			}
			q.drop()
			given++
		}
	}
	for ; q.first() != nil; given++ {
		if got := q.first().Call; got != want[given] {
			t.Fatalf("call %d is %+v, want %+v", given, got, want[given])
		}
		q.drop()
	}
	if given != len(want) || len(q.ring) == fewestQueued {
		t.Errorf("%d of %d calls, in a ring of %d, want all, and that it has grown", given, len(want), len(q.ring))
	}
}
