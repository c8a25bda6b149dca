package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/simulation"
	"github.com/rlgen/rlgen/rules"
)

// Text writes the report for a terminal of some columns.
func (r *Report) Text(w io.Writer, columns int) error {
	p := &printer{w: w}
	p.line("%s", r.Source)
	r.head(p)
	for _, run := range r.Runs {
		p.line("")
		r.run(p, run)
	}
	if r.Calls > 0 {
		r.charts(p, max(20, columns-axis))
	}
	return p.err
}

// printer writes lines until one fails.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (r *Report) head(p *printer) {
	if r.Calls == 0 {
		p.line("no calls")
	} else {
		p.line("%s from %s to %s UTC, %s", plural(r.Calls, "call"), clock(r.First, "2006-01-02 15:04:05"), clock(r.Last, "2006-01-02 15:04:05"), length(r.span()))
	}
	if r.Log == nil {
		return
	}
	if r.Log.Left > 0 {
		p.line("%s", unselected(r.Log))
	}
	if r.Log.Bad > 0 {
		p.line("%s", unread(r.Log))
		for _, why := range r.Log.First {
			p.line("  %s", why)
		}
	}
	for _, why := range r.Log.Broken {
		p.line("%s", why)
	}
}

func clock(at int64, layout string) string { return stamp(at).Format(layout) }

func (r *Report) run(p *printer, run *simulation.Run) {
	p.line("%s", run.Name)
	p.line("  allowed %s, denied %s (%s)", count(run.Allowed), count(run.Denied), percent(run.Denied, r.Calls))
	for i, l := range run.Limits {
		r.limit(p, run, i, l)
	}
	for _, assumed := range run.Assumed {
		p.line("  %s", assumed)
	}
}

func (r *Report) limit(p *printer, run *simulation.Run, i int, l *simulation.Limit) {
	p.line("  %s", directive(l))
	for _, rule := range l.Rules {
		p.line("    %-12s denied %s; most calls of one id in a window: %s%s", rule.Rule, count(rule.Denied), count(rule.Peak), whose(l, &rule))
	}
	for _, f := range r.facts(run, i, l) {
		p.line("    %-12s %s", f.what, f.text)
	}
}

// whose says whose peak it is, and when.
func whose(l *simulation.Limit, r *simulation.Rule) string {
	if r.Peak == 0 {
		return ""
	}
	at := clock(r.PeakAt, "15:04:05.999")
	if r.Window >= 24*time.Hour {
		at = clock(r.PeakAt, "2006-01-02")
	}
	if l.Kind == rules.Global {
		return " from " + at
	}
	return fmt.Sprintf(" (%s, from %s)", name(l, r.PeakID), at)
}

// axis is how many columns stand to the left of a chart.
const axis = 10

const rows = 8

// charts draws the calls of each run over time, at one scale.
func (r *Report) charts(p *printer, columns int) {
	bins, width := r.Bins.Merged(columns)
	most := int64(0)
	for _, b := range bins {
		most = max(most, b.Calls)
	}
	for i, run := range r.Runs {
		p.line("")
		p.line("%s: calls in each %s, █ allowed ░ denied", run.Name, length(width))
		for row := rows; row > 0; row-- {
			p.line("%*s %s", axis-1, mark(row, most), bars(bins, i, row, most))
		}
		p.line("%*s %s", axis-1, "", ruler(r, len(bins), width))
	}
}

func mark(row int, most int64) string {
	switch row {
	case rows:
		return count(most) + " ┤"
	case 1:
		return "0 ┤"
	}
	return "│"
}

// bars is one row of a chart, from the top.
func bars(bins []simulation.Bin, run, row int, most int64) string {
	var line strings.Builder
	for _, b := range bins {
		switch allowed := b.Allowed[run]; {
		case reaches(allowed, row, most):
			line.WriteRune('█')
		case reaches(b.Calls, row, most):
			line.WriteRune('░')
		default:
			line.WriteByte(' ')
		}
	}
	return strings.TrimRight(line.String(), " ")
}

// reaches says whether a bar reaches into a row; one of anything reaches into the lowest.
func reaches(n int64, row int, most int64) bool {
	return n > 0 && (row == 1 || 2*n*rows >= (2*int64(row)-1)*most)
}

// ruler is the times below a chart.
func ruler(r *Report, columns int, width time.Duration) string {
	layout := "15:04:05"
	if r.span() > 48*time.Hour {
		layout = "Jan 02"
	}
	first := clock(r.Bins.Start, layout)
	last := clock(r.Bins.Start+int64(columns)*width.Microseconds(), layout)
	return first + strings.Repeat(" ", max(1, columns-len(first)-len(last))) + last
}
