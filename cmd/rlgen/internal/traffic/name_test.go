package traffic

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What nobody needs is forgotten: of many texts that come once each there are never more than are needed at a time, but for a half, and who is needed
// keeps the Name.
func TestNamesAreForgotten(t *testing.T) {
	for _, step := range []int64{1, 1000, 1e6} {
		for _, start := range []int64{0, 1e15, 5e15} { // the last one is in the 22nd century
			namesAreForgotten(t, start, step)
		}
	}
}

// Calls that may still be overtaken keep their names, however many other names there are meanwhile.
func TestNamesOfCallsThatWait(t *testing.T) {
	const users = 5 * fewestNames
	var text strings.Builder
	text.WriteString("time,user\n")
	for i := range 2 * users {
		fmt.Fprintf(&text, "%d,user-%d\n", 1_000_000+i, i%users)
	}
	r := reader(t, Log{Within: 24 * time.Hour}, text.String())
	names := map[string]*Name{}
	for range 2 * users {
		var c Call
		if err := r.Next(&c); err != nil {
			t.Fatal(err)
		}
		if first := names[c.User.Text]; first != nil && first != c.User {
			t.Fatalf("the second call of %s has another name than the first", c.User.Text)
		}
		names[c.User.Text] = c.User
	}
}

func namesAreForgotten(t *testing.T, start, step int64) {
	const needed, calls = 5000, 100_000
	var names Names
	numbers := numbered{names: make([]*Name, 20_000), text: func(i int) string { return fmt.Sprint(i) }}
	kept := names.Of([]byte("kept"), start, start)
	kept.Until = start + calls*step
	var last *Name
	for i := range int64(calls) {
		at := start + i*step
		before := at - needed*step
		text := fmt.Appendf(nil, "user-%d", i)
		last = names.Of(text, at, before)
		if n := names.Of([]byte("kept"), at, before); n != kept {
			t.Fatalf("at %d kept is %p, want %p for as long as it is needed", at, n, kept)
		}
		if again := names.Of(text, at, before); again != last {
			t.Fatalf("at %d one text has two names", at)
		}
		if i%3 == 0 {
			last.Until = at + needed*step/2 // as somebody keeps something of it
		}
		numbers.of(int(i)%len(numbers.names), at, at)
	}
	if names.used > needed*5/2 || len(names.slots) > 1<<15 {
		t.Errorf("%d names in %d slots, want %d that are needed or a little more, and half of it", names.used, len(names.slots), needed)
	}
	if most := max(fewestNames, len(numbers.names)/8) + 1; numbers.used > most {
		t.Errorf("%d numbers have names, want %d at most", numbers.used, most)
	}
	end := start + calls*step
	if n := names.Of([]byte("user-0"), end, end); n.Until != end || n == last {
		t.Errorf("a text that is forgotten has the name %+v, want a new one", n)
	}
}

// Names in a table of few slots are told apart, and nobody has none.
func TestNames(t *testing.T) {
	var names Names
	all := map[string]*Name{}
	for i := range 3000 {
		text := fmt.Sprint(i)
		all[text] = names.Of([]byte(text), 1, 0)
	}
	for text, want := range all {
		if got := names.Of([]byte(text), 1, 0); got != want || got.String() != text {
			t.Fatalf("Of(%s) = %v at %p, want %p", text, got, got, want)
		}
	}
	if nobody := names.Of(nil, 1, 0); nobody != nil || nobody.String() != "" {
		t.Errorf("Of() = %v, want nil", nobody)
	}
}
