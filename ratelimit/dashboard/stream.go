package dashboard

import (
	"errors"
	"net/http"
	"time"
)

// patience is how long a reader may take for what it is sent.
const patience = 5 * time.Second

// stream sends snapshots until the reader goes away, or takes too long.
func (d *Dashboard) stream(w http.ResponseWriter, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
		http.Error(w, "found a request of another origin's page, want one of this page's own", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx keeps it back else
	if r.Method == http.MethodHead {
		return
	}
	if why := d.enter(); why != "" {
		w.Header().Set("Retry-After", "5")
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	defer func() { <-d.streams }()
	d.pulse.open.Add(1)
	defer d.pulse.open.Add(-1)
	sends := sending{to: http.NewResponseController(w), w: w}
	switch err := sends.begin(); {
	case errors.Is(err, http.ErrNotSupported):
		http.Error(w, "the dashboard cannot send while it counts, want ResponseWriters with Flush, or with Unwrap, in the handlers before it: "+err.Error(), http.StatusInternalServerError)
		return
	case err != nil:
		return // the reader is gone
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		d.beat()
		f, next := d.now()
		if err := sends.frames(f); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-d.closing.Done():
			return
		case <-next:
		case <-tick.C:
		}
	}
}

// enter takes a place among the pages that are open, or says why there is none.
func (d *Dashboard) enter() (why string) {
	if d.closing.Err() != nil {
		return "this instance ends"
	}
	select {
	case d.streams <- struct{}{}:
		return ""
	default:
		return "as many pages are open on this instance as may be"
	}
}

// now is the latest snapshot, and what is closed once there is a newer one.
func (d *Dashboard) now() (*frames, <-chan struct{}) {
	d.pulse.mu.Lock()
	defer d.pulse.mu.Unlock()
	if d.pulse.frames == nil {
		d.pulse.frames = d.frames(nil)
	}
	return d.pulse.frames, d.pulse.next
}

// sending is what one reader has been sent.
type sending struct {
	to             *http.ResponseController
	w              http.ResponseWriter
	latest         *frames
	version, scope string
}

// wait gives the reader time for what it is sent next. Where that cannot be, the server's own holds.
func (s *sending) wait() { _ = s.to.SetWriteDeadline(time.Now().Add(patience)) }

// begin sends the header. The server's ReadTimeout, which is for requests, does not end the stream.
func (s *sending) begin() error {
	_ = s.to.SetReadDeadline(time.Time{})
	s.wait()
	return s.to.Flush()
}

// frames sends what the reader has not got.
func (s *sending) frames(f *frames) error {
	if f == s.latest {
		return nil
	}
	var data []byte
	if f.version != s.version {
		data = append(data, f.static...)
	}
	if f.scope != s.scope {
		data = append(data, f.history()...)
	}
	s.wait()
	if _, err := s.w.Write(append(data, f.tick...)); err != nil {
		return err
	}
	s.latest, s.version, s.scope = f, f.version, f.scope
	return s.to.Flush()
}
