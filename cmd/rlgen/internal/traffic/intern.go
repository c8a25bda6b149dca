package traffic

// interned is texts that are kept once each: those of the last so many different ones, so that their memory is bounded.
type interned struct {
	young, old map[string]string
}

const generation = 1 << 16 // texts

// of returns b as a string.
func (t *interned) of(b []byte) string {
	if s, ok := t.young[string(b)]; ok {
		return s
	}
	s, ok := t.old[string(b)]
	if !ok {
		s = string(b)
	}
	if len(t.young) >= generation || t.young == nil {
		t.young, t.old = make(map[string]string, generation), t.young
	}
	t.young[s] = s
	return s
}
