package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/rlgen/rlgen/gen"
)

// unified returns what Commit would change of a stale file, as a unified diff with paths as seen from dir.
func unified(r *gen.Result, dir, path string) ([]byte, error) {
	name := path
	if rel, err := filepath.Rel(dir, path); err == nil {
		name = filepath.ToSlash(rel)
	}
	from, to := "a/"+name, "/dev/null"
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		from = "/dev/null"
	case err != nil:
		return nil, err
	}
	var text []byte
	for _, f := range r.Files {
		if f.Path == path {
			text, to = f.Text, "b/"+name
		}
	}
	return diff.Diff(from, old, to, text), nil
}
