package gen

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// Finding is a remark about one place of the source.
type Finding struct {
	// Pos is the place; its Filename is absolute, and empty where no file is at fault.
	Pos token.Position
	// Message says what was found, what was wanted, and how to mend it.
	Message string
	// Warning is set where the remark does not stand in the way of generating.
	Warning bool
	// Mend resolves the finding; nil where there is no one way to.
	Mend *Mend
}

// Text returns the finding as one line, "file:line:col: message", the file relative to dir.
func (f Finding) Text(dir string) string {
	message := f.Message
	if f.Warning {
		message = "warning: " + message
	}
	if f.Pos.Filename == "" {
		return "rlgen: " + message
	}
	pos := f.Pos
	pos.Filename = relative(dir, pos.Filename)
	return pos.String() + ": " + message
}

// relative returns path as seen from dir, in slashes; path itself where it is not below dir or a
// parent of it.
func relative(dir, path string) string {
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	return filepath.ToSlash(rel)
}

// findings gathers what a run remarks.
type findings struct{ list []Finding }

// errorf adds a finding, and returns it until the next is added.
func (f *findings) errorf(pos token.Position, format string, args ...any) *Finding {
	f.list = append(f.list, Finding{Pos: pos, Message: fmt.Sprintf(format, args...)})
	return &f.list[len(f.list)-1]
}

func (f *findings) warnf(pos token.Position, format string, args ...any) {
	f.list = append(f.list, Finding{Pos: pos, Message: fmt.Sprintf(format, args...), Warning: true})
}

// failed reports whether there is a finding that is more than a warning.
func (f *findings) failed() bool {
	return slices.ContainsFunc(f.list, func(f Finding) bool { return !f.Warning })
}

// sorted returns the findings in the order of their places, each once.
func (f *findings) sorted() []Finding {
	slices.SortStableFunc(f.list, func(a, b Finding) int {
		return cmp.Or(
			strings.Compare(a.Pos.Filename, b.Pos.Filename),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column),
			strings.Compare(a.Message, b.Message),
		)
	})
	return slices.CompactFunc(f.list, func(a, b Finding) bool {
		return a.Pos == b.Pos && a.Message == b.Message && a.Warning == b.Warning
	})
}
