package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// findings are what a check finds out, and at which servers. They are safe for concurrent use; the zero findings are ready.
type findings struct {
	mu      sync.Mutex
	servers []string // that decide; one without a name where the client knows of one alone
	asked   []string // of them, those that have not answered
	notes   []*note
}

// note is one thing that was found out: err, or else a finding.
type note struct {
	store.Finding
	err error
	at  []string // the servers where it is so; none where it is no matter of one
}

// begin takes note of a server that is asked.
func (f *findings) begin(server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.know(server)
	f.asked = append(f.asked, server)
}

// end takes note that a server has answered, or failed.
func (f *findings) end(server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = slices.DeleteFunc(f.asked, func(other string) bool { return other == server })
}

// silent are the servers that have been asked and have not answered.
func (f *findings) silent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// know takes note of a server. The findings' mu is held.
func (f *findings) know(server string) {
	if !slices.Contains(f.servers, server) {
		f.servers = append(f.servers, server)
	}
}

// findAt takes note of a finding, at a server where that has a name.
func (f *findings) findAt(server string, level slog.Level, format string, args ...any) {
	f.add(server, note{Finding: store.Finding{Level: level, Text: fmt.Sprintf(format, args...)}})
}

// failAt takes note of an error, at a server where that has a name, and reports whether there is one.
func (f *findings) failAt(server string, err error) bool {
	if err == nil {
		return false
	}
	f.add(server, note{Finding: store.Finding{Text: err.Error()}, err: err})
	return true
}

func (f *findings) add(server string, n note) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.notes, func(other *note) bool { return other.Finding == n.Finding })
	if i < 0 {
		i = len(f.notes)
		f.notes = append(f.notes, &n)
	}
	if server != "" && !slices.Contains(f.notes[i].at, server) {
		f.know(server)
		f.notes[i].at = append(f.notes[i].at, server)
	}
}

// results are the findings so far, and the errors as one.
func (f *findings) results() (found []store.Finding, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var refusals, failures []error
	for _, n := range f.notes {
		where := f.where(n)
		switch {
		case n.err == nil:
			found = append(found, store.Finding{Level: n.Level, Text: where + n.Text})
		case classIs(n.err, store.Misconfigured):
			refusals = append(refusals, within(where, n.err))
		default:
			failures = append(failures, within(where, n.err))
		}
	}
	if len(refusals) > 0 {
		return found, join(refusals)
	}
	return found, join(failures)
}

// where names the servers of a note, unless it is so at all of them.
func (f *findings) where(n *note) string {
	slices.Sort(n.at)
	switch {
	case len(n.at) == 0 || len(n.at) == len(f.servers):
		return ""
	case len(n.at) == 1:
		return "server " + n.at[0] + ": "
	}
	return "servers " + strings.Join(n.at, ", ") + ": "
}

// within is a store's error with words before what it says.
func within(words string, err error) error {
	var failed *store.Error
	if words == "" || !errors.As(err, &failed) {
		return err
	}
	return &store.Error{Class: failed.Class, Err: fmt.Errorf("%s%w", words, failed.Err)}
}

// join makes one error of several, of which the first has the class.
func join(errs []error) error {
	var failed *store.Error
	switch {
	case len(errs) == 0:
		return nil
	case len(errs) == 1 || !errors.As(errs[0], &failed):
		return errs[0]
	}
	return &store.Error{Class: failed.Class, Err: errors.Join(errs...)}
}
