package override_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/rules"
)

// shop is a limiter with one method, and what it logs.
type shop struct {
	*ratelimit.Limiter
	guard *ratelimit.Guard
	log   *bytes.Buffer
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{log: new(bytes.Buffer)}
	l, err := ratelimit.New(memstore.New(), ratelimit.WithLogger(slog.New(slog.NewTextHandler(s.log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	s.Limiter = l
	per := []rules.Rule{{Count: 1_000_000, Window: time.Hour}}
	s.guard = l.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: []rules.Limit{
		{Kind: rules.User, Rules: per, Algorithm: rules.FixedWindow}, {Kind: rules.Global, Rules: per, Algorithm: rules.FixedWindow},
	}})
	return s
}

// counts are those by which a call is decided, in the policy's order.
func (s *shop) counts(t *testing.T) [2]int64 {
	t.Helper()
	d, _, err := s.guard.Decide(ratelimit.WithUser(context.Background(), "alice"))
	if err != nil || !d.Allowed || len(d.Limits) != 2 {
		t.Errorf("Decide = %+v, %v, want it allowed by two limits", d, err)
		return [2]int64{}
	}
	return [2]int64{d.Limits[0].Rules[0].Rule.Count, d.Limits[1].Rules[0].Rule.Count}
}

func (s *shop) watch(t *testing.T, sources ...override.Source) *override.Watcher {
	t.Helper()
	w, err := override.New(s.Limiter, sources, override.WithInterval(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// both is a file by which both limits have a count.
func both(count int64) string {
	return fmt.Sprintf("limits:\n  Create/user: %d,1h\n  Create/global: %[1]d,1h\n", count)
}

// Each way in which a file comes to have other content is seen: written in place, renamed over, and behind the links of a mounted
// ConfigMap.
func TestWaysToSave(t *testing.T) {
	for name, save := range map[string]func(t *testing.T, path, text string){
		"in place": write,
		"renamed over": func(t *testing.T, path, text string) {
			write(t, path+".swp", text)
			if err := os.Rename(path+".swp", path); err != nil {
				t.Fatal(err)
			}
		},
		"links": func(t *testing.T, path, text string) { saveAsConfigMap(t, path, text) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			path := filepath.Join(t.TempDir(), "limits.yaml")
			w := s.watch(t, override.File(path))
			for _, count := range []int64{2_000_000, 3_000_000} {
				save(t, path, both(count))
				if err := w.Read(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := s.counts(t); got != [2]int64{count, count} {
					t.Errorf("counts %d, want %d", got, count)
				}
			}
		})
	}
}

// saveAsConfigMap does as the kubelet: limits.yaml is a link to ..data/limits.yaml, and ..data one to a directory of that version, which is renamed
// over the one before.
func saveAsConfigMap(t *testing.T, path, text string) {
	t.Helper()
	dir := filepath.Dir(path)
	version, err := os.MkdirTemp(dir, "..version")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(version, "limits.yaml"), text)
	if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..data", "limits.yaml"), path); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
}

// A file that cannot be used leaves what was in force, is logged once, and is used once it is mended.
func TestBadFiles(t *testing.T) {
	const unknown = `limits.yaml:2:15: unknown limit "Create/use", want the name of one, as rlgen list has it; did you mean "Create/user"?`
	for name, test := range map[string]struct{ text, want string }{
		"no YAML":       {"limits: {", "did not find expected"},
		"empty":         {"", "found nothing"},
		"unknown limit": {"limits:\n  Create/use: off\n", "unknown limit"},
		"bad rule":      {"limits:\n  Create/user: 20,1x\n", "unknown unit"},
		"half of it":    {"limits:\n  Create/user: 5,1s\n  Create/global: 0,1s\n", "admits nothing"},
		"gone":          {"-", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			path := filepath.Join(t.TempDir(), "limits.yaml")
			w := s.watch(t, override.File(path))
			write(t, path, both(2_000_000))
			if err := w.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if test.text == "-" {
				os.Remove(path)
			} else {
				write(t, path, test.text)
			}
			for range 3 {
				if err := w.Read(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("Read = %v, want an error that says %q", err, test.want)
				}
			}
			if got := s.counts(t); got != [2]int64{2_000_000, 2_000_000} {
				t.Errorf("counts %d, want those before", got)
			}
			if n := strings.Count(s.log.String(), "cannot be used"); n != 1 {
				t.Errorf("%d lines say so, want 1:\n%s", n, s.log)
			}
			write(t, path, both(3_000_000))
			if err := w.Read(t.Context()); err != nil {
				t.Errorf("Read of what is mended = %v, want none", err)
			}
			if got := s.counts(t); got != [2]int64{3_000_000, 3_000_000} {
				t.Errorf("counts %d, want 3000000", got)
			}
		})
	}
	s := newShop(t)
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, path, "limits:\n  Create/use: off\n")
	if err := s.watch(t, override.File(path)).Read(t.Context()); err == nil || !strings.HasSuffix(err.Error(), unknown) {
		t.Errorf("Read = %v, want it to end with %s", err, unknown)
	}
}

// What is under the path and is no file is an error, and nobody waits for it.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "loop")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("loop", loop)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe: "pipe is no file", dir: " is no file", "/dev/zero": "/dev/zero is no file", loop: "too many levels", filepath.Join(dir, "none"): "no such file",
	} {
		if err := newShop(t).watch(t, override.File(path)).Read(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read of %s = %v, want an error that says %q", path, err, want)
		}
	}
}

// A file that was gone and is back as it was is no error.
func TestFileThatComesBack(t *testing.T) {
	s := newShop(t)
	path := filepath.Join(t.TempDir(), "limits.yaml")
	w := s.watch(t, override.File(path))
	write(t, path, both(2_000_000))
	if err := w.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	os.Rename(path, path+".old")
	if err := w.Read(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read = %v, want %v", err, os.ErrNotExist)
	}
	os.Rename(path+".old", path)
	if err := w.Read(t.Context()); err != nil {
		t.Errorf("Read = %v, want none", err)
	}
}

// Of two sources the later one holds; what is wrong with one does not keep the other from changing.
func TestTwoSources(t *testing.T) {
	s := newShop(t)
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml")
	w := s.watch(t, override.File(one), override.File(two))
	write(t, one, both(2_000_000))
	write(t, two, "limits:\n  Create/user: 3000000,1h\n")
	if err := w.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.counts(t); got != [2]int64{3_000_000, 2_000_000} {
		t.Errorf("counts %d, want 3000000 of the later file, and 2000000", got)
	}
	write(t, two, "nothing")
	write(t, one, both(4_000_000))
	if err := w.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "two.yaml") {
		t.Errorf("Read = %v, want an error about two.yaml", err)
	}
	if got := s.counts(t); got != [2]int64{3_000_000, 4_000_000} {
		t.Errorf("counts %d, want 3000000, which was in the later file, and 4000000", got)
	}
}

// While 64 clients call, the file is edited: the new counts hold for every call that begins after they first did, no call fails, and none is decided by
// counts of two versions.
func TestFileIsEditedUnderLoad(t *testing.T) {
	s := newShop(t)
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, path, both(2_000_000))
	w := s.watch(t, override.File(path))
	if err := w.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	seen := make(chan int64)
	for range 64 {
		running.Go(func() {
			latest := int64(0)
			for ctx.Err() == nil {
				counts := s.counts(t)
				if counts[0] != counts[1] || counts[0] < latest {
					t.Errorf("a decision has the counts %d after one with %d, want one version, and none that is over", counts, latest)
				}
				latest = counts[0]
				select {
				case seen <- latest:
				case <-ctx.Done():
				}
			}
		})
	}
	for version := range int64(4) {
		count := 3_000_000 + version
		write(t, path, both(count))
		for <-seen != count {
		}
	}
	cancel()
	running.Wait()
}

// Sources that are valid only together come into force together, in whichever order they are written, and what is wrong with one does not keep a third from changing.
func TestSourcesThatNeedEachOther(t *testing.T) {
	s := newShop(t)
	per := []rules.Rule{{Count: 10, Window: time.Hour}}
	shared := []rules.Limit{{Kind: rules.Global, Rules: per, Bucket: "shared"}}
	add := s.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Carts", Method: "Add", Limits: shared})
	s.Guard(&rules.Policy{Package: "example.com/shop", Type: "shop.Carts", Method: "Drop", Limits: shared})
	count := func() int64 {
		t.Helper()
		d, permit, err := add.Decide(context.Background())
		if err != nil || len(d.Limits) != 1 {
			t.Fatalf("Decide = %+v, %v, want one limit", d, err)
		}
		_ = permit.GiveBack(context.Background())
		return d.Limits[0].Rules[0].Rule.Count
	}
	dir := t.TempDir()
	one, two, three := filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml"), filepath.Join(dir, "three.yaml")
	for _, path := range []string{one, two, three} {
		write(t, path, "limits: {}")
	}
	w := s.watch(t, override.File(one), override.File(two), override.File(three))
	read := func(wrong string, want int64) {
		t.Helper()
		err := w.Read(t.Context())
		if (err != nil) != (wrong != "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("Read = %v, want an error about %q, or none", err, wrong)
		}
		if got := count(); got != want {
			t.Errorf("the count is %d, want %d", got, want)
		}
	}
	read("", 10)
	write(t, one, "limits:\n  Add: 20,1h\n")
	read("one.yaml:2:8: limit \"Add\" shares its bucket", 10)
	read("one.yaml:2:8: limit \"Add\" shares its bucket", 10)
	write(t, three, "limits:\n  Create/user: 3000000,1h\n")
	read("one.yaml", 10)
	if got := s.counts(t); got[0] != 3_000_000 {
		t.Errorf("the count of the third file is %d, want 3000000", got[0])
	}
	write(t, two, "limits:\n  Drop: 20,1h\n")
	read("", 20)
	write(t, two, "limits:\n  Drop: 30,1h\n")
	write(t, one, "limits:\n  Add: 30,1h\n")
	read("", 30)
	write(t, two, "limits:\n  Drop: 40,1h\n")
	write(t, three, "limits:\n  Create/usr: 3000000,1h\n")
	read("two.yaml", 30)
	write(t, one, "limits:\n  Add: 40,1h\n") // the third is still wrong, and keeps neither from coming into force with the other
	read("three.yaml", 40)
}

// An editor that writes in place, and takes its time, is met in the middle of it: what is not valid then changes nothing, and is used once it is whole.
func TestHalfOfAFile(t *testing.T) {
	s := newShop(t)
	path := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, path, both(2_000_000))
	w := s.watch(t, override.File(path))
	if err := w.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := both(3_000_000)
	for _, end := range []int{0, 3, len("limits:\n"), len("limits:\n  Create/us"), len("limits:\n  Create/user: "), len("limits:\n  Create/user: 3000000"), len(whole) - len("000,1h\n")} {
		write(t, path, whole[:end])
		if err := w.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "limits.yaml") {
			t.Errorf("Read of %q = %v, want an error about the file", whole[:end], err)
		}
		if got := s.counts(t); got != [2]int64{2_000_000, 2_000_000} {
			t.Errorf("with %q the counts are %d, want those before", whole[:end], got)
		}
	}
	write(t, path, whole)
	if err := w.Read(t.Context()); err != nil {
		t.Errorf("Read of the whole = %v, want none", err)
	}
	if got := s.counts(t); got != [2]int64{3_000_000, 3_000_000} {
		t.Errorf("counts %d, want 3000000", got)
	}
}

// A file is read once it has stayed as it is for a moment: half of one is none, though it would be valid.
func TestFileThatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.yaml")
		write(t, path, "limits:\n  Create/user: 2,1h\n")
		go func() {
			time.Sleep(20 * time.Millisecond)
			write(t, path, "limits:\n  Create/user: 2,1h\n  Create/global: 3,1h\n")
		}()
		overrides, _, err := override.File(path).Read(t.Context(), "")
		if err != nil || len(overrides) != 2 {
			t.Errorf("Read of a file that is being written = %v, %v, want all of it", overrides, err)
		}
		synctest.Wait()
	})
}

// Run ends with its context, and leaves nothing behind.
func TestRunEnds(t *testing.T) {
	s := newShop(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if err := s.watch(t, override.File("no/such/file")).Run(ctx); !errors.Is(err, gone) {
		t.Errorf("Run = %v, want %v", err, gone)
	}
}

func TestNewRefuses(t *testing.T) {
	l := newShop(t).Limiter
	source := []override.Source{override.File("limits.yaml")}
	for want, make := range map[string]func() (*override.Watcher, error){
		"override: a nil *ratelimit.Limiter, want the one whose limits are overridden": func() (*override.Watcher, error) { return override.New(nil, source) },
		"override: no sources, want one or more, such as override.File(path)":          func() (*override.Watcher, error) { return override.New(l, nil) },
		"override: a nil Source, want one of File or of package redisoverride":         func() (*override.Watcher, error) { return override.New(l, []override.Source{nil}) },
		"override: an interval of 0s, want more than 0":                                func() (*override.Watcher, error) { return override.New(l, source, override.WithInterval(0)) },
	} {
		if _, err := make(); err == nil || err.Error() != want {
			t.Errorf("New = %v, want %s", err, want)
		}
	}
}
