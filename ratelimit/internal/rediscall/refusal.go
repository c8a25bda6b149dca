package rediscall

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// refusal remembers that a server does not know who the client is. Having said so it may close the connection, which the client
// uses again, and may close the next one before it has said so: what then breaks is no server that is down. It is safe for concurrent use; the zero refusal is ready.
type refusal struct{ latest atomic.Pointer[said] }

// said is what a server has refused a client with, and what to do about it.
type said struct{ text, mend string }

// heard takes note of how a call ended, and returns what that means.
func (r *refusal) heard(m meaning, err error) (meaning, error) {
	if r == nil {
		return m, err
	}
	if m.mend == identify || m.mend == reidentify || m.mend == certify {
		r.latest.Store(&said{err.Error(), m.mend})
		return m, err
	}
	if said := r.latest.Load(); said != nil && m.class != store.Misconfigured && broken(err) {
		return meaning{class: store.Misconfigured, mend: said.mend}, fmt.Errorf("%w, after %s", err, said.text)
	}
	return m, err
}

// decided forgets what was remembered.
func (r *refusal) decided() {
	if r != nil && r.latest.Load() != nil {
		r.latest.Store(nil)
	}
}

// broken says whether a connection was closed by the other side.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
