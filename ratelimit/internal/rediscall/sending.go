package rediscall

import "sync/atomic"

// sending is how far a command has come on its way to the server. It is safe for concurrent use; the zero sending has not
// begun.
type sending struct{ state atomic.Int32 }

const (
	waiting   = iota // for a connection, for instance
	written          // or about to be: the server may have it
	abandoned        // before it was written, which it then is not any more
)

// begin reports whether the command may be written, and is from now on taken to be.
func (s *sending) begin() bool {
	return s.state.CompareAndSwap(waiting, written) || s.state.Load() == written
}

// begun says whether the server may have the command.
func (s *sending) begun() bool { return s.state.Load() == written }

// renew makes ready for a further sending of a command that the server has not executed.
func (s *sending) renew() { s.state.CompareAndSwap(written, waiting) }

// abandon keeps the command from being written, and reports whether that was not too late.
func (s *sending) abandon() bool {
	return s.state.CompareAndSwap(waiting, abandoned) || s.state.Load() == abandoned
}

// nothing is what a client writes that has got hold of a connection once its command is abandoned: it cannot be kept
// from writing something.
var nothing = []any{"eval", "return {}", 0}
