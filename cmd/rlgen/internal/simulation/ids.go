package simulation

import "github.com/rlgen/rlgen/rules"

// ids is what is known of the ids of a limit: those of this window and of the one before.
type ids struct {
	suffix    string // of their keys
	window    int64  // µs, the longest
	began     int64
	this, old map[string]*one
	last      *one
	most      int
	addresses map[string]string // what those of this window count by
}

// one is one id.
type one struct {
	id, key string
	windows []window // of the rules
}

// window is how many calls there were in the newest one.
type window struct{ at, calls int64 }

// at returns what is known of an id, at a time.
func (s *ids) at(id string, now int64, rules int) *one {
	if s.this == nil || now-s.began >= s.window {
		if s.old = s.this; now-s.began >= 2*s.window {
			s.old = nil
		}
		s.this, s.began = make(map[string]*one), now-now%s.window
		s.addresses = nil
	}
	who, ok := s.this[id]
	if !ok {
		if who, ok = s.old[id]; ok {
			delete(s.old, id)
		} else {
			who = &one{id: id, key: id + s.suffix, windows: make([]window, rules)}
		}
		s.this[id] = who
		s.most = max(s.most, len(s.this)+len(s.old))
	}
	s.last = who
	return who
}

// address returns what an address counts by.
func (s *ids) address(text string) (string, bool) {
	id, ok := s.addresses[text]
	if !ok {
		id = rules.ParseAddressID(text, rules.DefaultIPv6Prefix)
		if s.addresses == nil {
			s.addresses = make(map[string]string)
		}
		s.addresses[text] = id
	}
	return id, id != ""
}
