package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
)

// progress is a line on a terminal that says how far a log is read. It is nothing where there is no terminal.
type progress struct {
	out   io.Writer // nil for nothing
	log   *traffic.Reader
	size  int64 // of all files, 0 if it is not known
	begun time.Time
	shown time.Time
}

func (c *command) progress(log *traffic.Reader, size int64) *progress {
	p := &progress{log: log, size: size, begun: time.Now()}
	if f, ok := c.stderr.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.out = f
		}
	}
	return p
}

// show prints the line anew, a few times a second.
func (p *progress) show() {
	if p.out == nil || time.Since(p.shown) < 200*time.Millisecond || time.Since(p.begun) < time.Second {
		return
	}
	p.shown = time.Now()
	fmt.Fprintf(p.out, "\r\x1b[K%s", p.text())
}

func (p *progress) text() string {
	text := fmt.Sprintf("%d lines", p.log.Lines)
	if p.size > 0 {
		text = fmt.Sprintf("%3d %%, %s", min(100, 100*p.log.Bytes/p.size), text)
	}
	return text
}

// clear takes the line away.
func (p *progress) clear() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
