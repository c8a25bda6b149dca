package override

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rlgen/rlgen/rules"
	"github.com/rlgen/rlgen/rules/overridefile"
)

// File returns the source of the overrides in a file, as package overridefile reads it. A file that is gone is an error; one that
// says "limits: {}" overrides nothing.
func File(path string) Source { return file(path) }

type file string

func (f file) String() string { return string(f) }

// Watch returns at once: what says that files change says it of links and renames in ways that differ.
func (file) Watch(context.Context, func()) {}

// Read reads the file; its version is the hash of its content.
func (f file) Read(ctx context.Context, seen string) ([]rules.Override, string, error) {
	text, version, err := f.content()
	for before := seen; err == nil && version != before; {
		if err := settle(ctx); err != nil {
			return nil, "", err
		}
		before = version
		text, version, err = f.content()
	}
	if err != nil {
		return nil, "", err
	}
	if version == seen {
		return nil, seen, nil
	}
	overrides, err := overridefile.Parse(string(f), text)
	return overrides, version, err
}

// settled is how long a file is to have one content before that is used: it may be in the middle of being written.
const settled = 50 * time.Millisecond

func settle(ctx context.Context) error {
	timer := time.NewTimer(settled)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// content is all of the file, unless it is too large, and its hash.
func (f file) content() (text []byte, version string, err error) {
	if text, err = read(string(f)); err != nil {
		return nil, "", fmt.Errorf("the overrides cannot be read: %w", err)
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:]), nil
}

// read reads a file, of which what is no file, such as a pipe, is none: whoever opens that waits for somebody to write.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file, but %v, want one with the overrides", path, info.Mode().Type())
	}
	open, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	return io.ReadAll(io.LimitReader(open, overridefile.MaxSize+1))
}
