package traffic

import (
	"fmt"
	"testing"
)

// What nobody needs is forgotten: of a million texts that come once each there are never more than are needed at a time, but for a half, and who is needed
// keeps the Name.
func TestNamesAreForgotten(t *testing.T) {
	const needed = 5000
	var names Names
	numbers := numbered{names: make([]*Name, 20_000), text: func(i int) string { return fmt.Sprint(i) }}
	kept := names.Of([]byte("kept"), 0, 0)
	kept.Until = 1e6
	var last *Name
	for at := range int64(1e6) {
		last = names.Of(fmt.Appendf(nil, "user-%d", at), at, at-needed)
		if n := names.Of([]byte("kept"), at, at-needed); n != kept {
			t.Fatalf("at %d kept is %p, want %p for as long as it is needed", at, n, kept)
		}
		if again := names.Of(fmt.Appendf(nil, "user-%d", at), at, at-needed); again != last {
			t.Fatalf("at %d one text has two names", at)
		}
		numbers.of(int(at)%len(numbers.names), at, at)
	}
	if names.used > needed*2 || len(names.slots) > 1<<15 {
		t.Errorf("%d names in %d slots, want %d that are needed and half of it", names.used, len(names.slots), needed)
	}
	if most := max(fewestNames, len(numbers.names)/8) + 1; numbers.used > most {
		t.Errorf("%d numbers have names, want %d at most", numbers.used, most)
	}
	if n := names.Of([]byte("user-0"), 1e6, 1e6); n.Until != 1e6 || n == last {
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
