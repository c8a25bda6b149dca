package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
)

// A terminal is told how far a log is read, in a line that goes away; what is no terminal is told nothing.
func TestProgress(t *testing.T) {
	const text = "time,user\n1,a\n2,b\n3,c\n"
	log, err := traffic.Log{}.Read(traffic.File{Name: "log", Reader: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = log.Next(new(traffic.Call))
	}
	var out bytes.Buffer
	p := &progress{out: &out, log: log, size: 2 * int64(len(text)), begun: time.Now().Add(-time.Hour)}
	p.show()
	p.clear()
	if want := "\r\x1b[K 50 %, 3 lines\r\x1b[K"; out.String() != want {
		t.Errorf("the terminal is told %q, want %q", out.String(), want)
	}
	out.Reset()
	(&progress{out: &out, log: log, begun: time.Now().Add(-time.Hour)}).show() // standard input has no size
	if want := "\r\x1b[K3 lines"; out.String() != want {
		t.Errorf("of standard input the terminal is told %q, want %q", out.String(), want)
	}
	out.Reset()
	for _, p := range []*progress{{out: &out, log: log, begun: time.Now().Add(time.Hour)}, (&command{stderr: &out}).progress(log, 0)} {
		p.show()
		p.clear()
	}
	if out.Len() > 0 {
		t.Errorf("of a log that is quickly read, and without a terminal, it says %q, want nothing", out.String())
	}
}
