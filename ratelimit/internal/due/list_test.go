package due

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// told writes down when its time came.
type told struct {
	t     *testing.T
	begin time.Time
	name  string
	book  *book
}

type book struct {
	mu    sync.Mutex
	lines []string
}

func (w *told) Due() {
	w.book.mu.Lock()
	defer w.book.mu.Unlock()
	w.book.lines = append(w.book.lines, fmt.Sprint(w.name, " ", time.Since(w.begin)))
}

// TestList adds items in any order and removes some: the others are told, each at its time, and once.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l List
		book, begin := &book{}, time.Now()
		entries := map[string]*Entry{}
		add := func(name string, after time.Duration) {
			entries[name] = &Entry{}
			l.Add(entries[name], &told{t, begin, name, book}, begin.Add(after))
		}
		add("b", 2*time.Second)
		add("d", 4*time.Second)
		add("a", time.Second)
		add("c", 3*time.Second)
		add("also c", 3*time.Second)
		l.Remove(entries["b"])
		l.Remove(entries["b"])
		time.Sleep(2500 * time.Millisecond)
		add("past", 0)
		l.Remove(entries["a"]) // it has been told
		time.Sleep(time.Hour)
		add("e", 2*time.Hour)
		time.Sleep(time.Hour)
		synctest.Wait()
		book.mu.Lock()
		defer book.mu.Unlock()
		want := []string{"a 1s", "past 2.5s", "c 3s", "also c 3s", "d 4s", "e 2h0m0s"}
		if !slices.Equal(book.lines, want) {
			t.Errorf("told %q, want %q", book.lines, want)
		}
		if l.first != nil || l.last != nil || !l.fires.IsZero() {
			t.Errorf("the list is %+v, want it empty and without a timer", &l)
		}
	})
}

// TestRemoveOfMany takes out of the middle and of both ends, in every order.
func TestRemoveOfMany(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var l List
			book, begin := &book{}, time.Now()
			entries := make([]Entry, 3)
			for i := range entries {
				l.Add(&entries[i], &told{t, begin, fmt.Sprint(i), book}, begin.Add(time.Second))
			}
			for _, i := range order {
				l.Remove(&entries[i])
			}
			if l.first != nil || l.last != nil {
				t.Errorf("after the removal of %v the list has entries", order)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(book.lines) > 0 {
				t.Errorf("after the removal of %v told %q, want nothing", order, book.lines)
			}
		})
	}
}
