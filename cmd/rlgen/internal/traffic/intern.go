package traffic

import "hash/maphash"

// interned is texts that are kept once each, as long as no other takes the place that its hash gives it, so that their memory is bounded. The zero interned has none.
type interned struct {
	seed  maphash.Seed
	texts []string // by hash
}

const mostTexts = 1 << 15

// of returns b as a string.
func (t *interned) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if t.texts == nil {
		t.seed, t.texts = maphash.MakeSeed(), make([]string, mostTexts)
	}
	s := &t.texts[maphash.Bytes(t.seed, b)%mostTexts]
	if *s != string(b) {
		*s = string(b)
	}
	return *s
}
