package rediscall

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// TestRefusal holds that a connection which breaks is a server's that refuses the client, from when it has said so until it has decided a call, and one of a server that is
// away before and after.
func TestRefusal(t *testing.T) {
	away := meaning{class: store.Unavailable, reaction: again}
	for text, mend := range map[string]string{
		"NOAUTH Authentication required.": identify, "WRONGPASS invalid username-password pair": reidentify, "remote error: tls: certificate required": certify,
	} {
		t.Run(text, func(t *testing.T) {
			var r refusal
			want := func(when string, class store.Class) {
				t.Helper()
				m, err := r.heard(away, io.EOF)
				if m.class != class || !errors.Is(err, io.EOF) {
					t.Errorf("%s: a connection that breaks = %v, %v, want class %v", when, m.class, err, class)
				}
				if class == store.Misconfigured && (m.mend != mend || !strings.Contains(err.Error(), text)) {
					t.Errorf("%s: %v: %s, want %q in it, and to %s", when, err, m.mend, text, mend)
				}
			}
			want("before the refusal", store.Unavailable)
			r.heard(meaning{class: store.Misconfigured, mend: mend}, errors.New(text))
			want("after the refusal", store.Misconfigured)
			if m, _ := r.heard(away, errors.New("LOADING")); m != away {
				t.Errorf("another error after the refusal = %+v, want what it was", m)
			}
			r.decided()
			want("once a call was decided", store.Unavailable)
		})
	}
}
