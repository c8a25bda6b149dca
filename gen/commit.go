package gen

import (
	"bytes"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Stale returns the files, by path, that Commit would write or remove.
func (r *Result) Stale() []string {
	var stale []string
	for _, f := range r.Files {
		if !f.current() {
			stale = append(stale, f.Path)
		}
	}
	return append(stale, r.Obsolete...)
}

// Commit writes the files that changed and removes those that are obsolete, or empties them if
// [Config.Empty] is set; it writes nothing if the result Failed. Each file is replaced as a whole.
func (r *Result) Commit() error {
	if r.Failed() {
		return errors.New("gen: there are findings, nothing is written")
	}
	cleaned := map[string]bool{}
	for _, f := range r.Files {
		if dir := filepath.Dir(f.Path); !cleaned[dir] {
			cleaned[dir] = true
			removeTemps(dir)
		}
		if err := f.write(); err != nil {
			return err
		}
	}
	remove := slices.Concat(r.Obsolete, r.emptied)
	if r.empty {
		remove = nil
		for _, path := range r.Obsolete {
			if err := empty(path); err != nil {
				return err
			}
		}
	}
	for _, path := range remove {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// tempPattern matches the files that are written before they replace others.
const tempPattern = ".rlgen-*"

// removeTemps removes temporary files of killed runs from a directory. A run that is under way has
// its files for less than a minute.
func removeTemps(dir string) {
	paths, _ := filepath.Glob(filepath.Join(dir, tempPattern))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > time.Minute {
			_ = os.Remove(path) // it does no harm
		}
	}
}

// emptyNotice is the second comment of a file that was emptied.
const emptyNotice = "// This file is empty: no directive makes it any longer. Delete it, or run rlgen outside of go generate."

// empty leaves the package clause of a generated file. It removes a file without one, which the go
// command does not list.
func empty(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
	if err != nil {
		return os.Remove(path)
	}
	text := header("") + "\n\n" + emptyNotice + "\n\npackage " + file.Name.Name + "\n"
	return File{Path: path, Text: []byte(text)}.write()
}

// isEmptied reports whether a generated file was emptied.
func isEmptied(text []byte) bool { return bytes.Contains(text, []byte(emptyNotice)) }

// current reports whether the file stands there already, with whatever line ends.
func (f File) current() bool {
	old, err := os.ReadFile(f.Path)
	return err == nil && bytes.Equal(bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n")), f.Text)
}

func (f File) write() error {
	if f.current() {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(f.Path), tempPattern)
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(f.Text)
	err = errors.Join(err, temp.Chmod(f.mode()), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), f.Path)
}

// mode returns the permissions that the file has, or is to get.
func (f File) mode() fs.FileMode {
	if info, err := os.Stat(f.Path); err == nil {
		return info.Mode().Perm()
	}
	return 0o644
}
