package httplimit

import (
	"io"
	"net/http"
)

// writer is an answer of which somebody is told when it begins.
type writer struct {
	under  http.ResponseWriter
	begins func(status int) // called before the first byte is sent, once; not at all where the connection is hijacked before
	begun  bool
}

// begin is called before anything of an answer of status is sent.
func (w *writer) begin(status int) {
	informational := status < 200 && status != http.StatusSwitchingProtocols
	if w.begun || informational {
		return
	}
	w.begun = true
	w.begins(status)
}

func (w *writer) Header() http.Header { return w.under.Header() }

func (w *writer) WriteHeader(status int) {
	w.begin(status)
	w.under.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.under.Write(p)
}

func (w *writer) WriteString(s string) (int, error) {
	w.begin(http.StatusOK)
	return io.WriteString(w.under, s)
}

// ReadFrom lets a file go to the connection without a detour, where the server can.
func (w *writer) ReadFrom(r io.Reader) (int64, error) {
	w.begin(http.StatusOK)
	return io.Copy(w.under, r)
}

// FlushError is what an [http.ResponseController] flushes by. The error is [http.ErrNotSupported] where the server cannot.
func (w *writer) FlushError() error {
	w.begin(http.StatusOK)
	return http.NewResponseController(w.under).Flush()
}

// Unwrap is what an [http.ResponseController] finds the rest by.
func (w *writer) Unwrap() http.ResponseWriter { return w.under }

// shaped is w with those of net/http's optional interfaces that the answer under it has, in the combinations that servers
// and middlewares have them.
func (w *writer) shaped() http.ResponseWriter {
	_, flushes := w.under.(http.Flusher)
	hijacker, hijacks := w.under.(http.Hijacker)
	pusher, pushes := w.under.(http.Pusher)
	notifier, notifies := w.under.(closeNotifier)
	switch f := (flushing{w}); {
	case !flushes:
		return w
	case hijacks && notifies:
		return struct {
			flushing
			http.Hijacker
			closeNotifier
		}{f, hijacker, notifier}
	case hijacks:
		return struct {
			flushing
			http.Hijacker
		}{f, hijacker}
	case pushes && notifies:
		return struct {
			flushing
			http.Pusher
			closeNotifier
		}{f, pusher, notifier}
	default:
		return f
	}
}

// flushing is a writer that can flush.
type flushing struct{ *writer }

func (f flushing) Flush() { _ = f.FlushError() }

// closeNotifier is net/http's CloseNotifier, which is deprecated, and which gin's streams call.
type closeNotifier interface{ CloseNotify() <-chan bool }
