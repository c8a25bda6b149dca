package report

import (
	"bytes"
	"fmt"
	"html"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/simulation"
)

// The picture's measures, in its own units.
const (
	pictureWidth = 960
	left, right  = 72, 24
	plot         = pictureWidth - left - right
	titleHeight  = 64
	callsHeight  = 150
	levelHeight  = 70
	gap          = 34
	panelHeight  = 40 + callsHeight + gap + levelHeight + 46
	mostColumns  = 288
)

// style of pictures and pages, by day and by night.
const style = `
.bg{fill:#fff}.ink{fill:#1f2328}.dim{fill:#59636e}.axis{stroke:#8c959f;fill:none}.grid{stroke:#d8dee4;fill:none}
.yes{fill:#0969da}.no{fill:#e36209}.l0{stroke:#8250df}.l1{stroke:#1a7f37}.l2{stroke:#bf3989}.l3{stroke:#9a6700}.level{stroke-width:1.6;fill:none}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.ink{fill:#e6edf3}.dim{fill:#9198a1}.axis{stroke:#656c76}.grid{stroke:#2a313c}
.yes{fill:#4493f8}.no{fill:#f0883e}.l0{stroke:#bc8cff}.l1{stroke:#3fb950}.l2{stroke:#f778ba}.l3{stroke:#d29922}}
`

// SVG is the picture: for each candidate the calls over time, allowed and denied, at one scale, and how full its limits were.
func (r *Report) SVG() []byte {
	var b bytes.Buffer
	height := titleHeight + panelHeight*len(r.Runs)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="12" role="img">`+"\n",
		pictureWidth, height, pictureWidth, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n<rect class=\"bg\" width=\"100%%\" height=\"100%%\"/>\n", html.EscapeString("What limits do to "+r.Source), style)
	label(&b, "ink", left, 24, "start", 15, r.Source)
	legend(&b)
	d := r.drawing()
	for i, run := range r.Runs {
		fmt.Fprintf(&b, "<g transform=\"translate(0 %d)\">\n", titleHeight+panelHeight*i)
		d.panel(&b, i, run)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func label(b *bytes.Buffer, class string, x, y float64, anchor string, size int, text string) {
	fmt.Fprintf(b, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\">%s</text>\n", class, x, y, anchor, size, html.EscapeString(text))
}

func legend(b *bytes.Buffer) {
	for i, item := range []struct{ class, text string }{{"yes", "allowed"}, {"no", "denied"}} {
		x := left + 90*i
		fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"38\" width=\"10\" height=\"10\"/>\n", item.class, x)
		label(b, "dim", float64(x+16), 47, "start", 12, item.text)
	}
	label(b, "dim", left+180, 47, "start", 12, "the line below: how much of its count the fullest id has used")
}

// drawing is the bins of a picture, and its scales.
type drawing struct {
	bins  []simulation.Bin
	width time.Duration
	start int64
	most  int64
	days  bool
}

func (r *Report) drawing() *drawing {
	d := &drawing{start: r.Bins.Start, most: 1, days: r.span() > 48*time.Hour}
	if r.Calls == 0 {
		return d
	}
	d.bins, d.width = r.Bins.Merged(mostColumns)
	for _, b := range d.bins {
		d.most = max(d.most, b.Calls)
	}
	return d
}

func (d *drawing) x(i int) float64 { return left + plot*float64(i)/float64(max(1, len(d.bins))) }

func (d *drawing) height(n int64) float64 { return callsHeight * float64(n) / float64(d.most) }

// panel draws one candidate.
func (d *drawing) panel(b *bytes.Buffer, i int, run *simulation.Run) {
	const top, bottom = 40, 40 + callsHeight
	label(b, "ink", left, 16, "start", 13, run.Name)
	label(b, "dim", left, 32, "start", 12, fmt.Sprintf("allowed %s, denied %s (%s)", count(run.Allowed), count(run.Denied), percent(run.Denied, run.Allowed+run.Denied)))
	label(b, "dim", left-6, top+9, "end", 11, count(d.most))
	label(b, "dim", left-6, bottom, "end", 11, "0")
	for at := range d.bins {
		bin := &d.bins[at]
		x, w := d.x(at), plot/float64(len(d.bins))
		allowed := d.height(bin.Allowed[i])
		bar(b, "yes", x, bottom-allowed, w, allowed)
		denied := d.height(bin.Calls - bin.Allowed[i])
		bar(b, "no", x, bottom-allowed-denied, w, denied)
	}
	fmt.Fprintf(b, "<path class=\"axis\" d=\"M%d %d V%d H%d\"/>\n", left, top, bottom, left+plot)
	label(b, "dim", pictureWidth-right, top-6, "end", 11, "calls in each "+length(d.width))
	d.levels(b, i, run, bottom+gap)
}

func bar(b *bytes.Buffer, class string, x, y, w, h float64) {
	if h > 0 {
		fmt.Fprintf(b, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n", class, x, y, max(w, 0.5), h)
	}
}

// levels draws how full the limits of a candidate were.
func (d *drawing) levels(b *bytes.Buffer, i int, run *simulation.Run, top int) {
	bottom := top + levelHeight
	fmt.Fprintf(b, "<path class=\"grid\" d=\"M%d %d H%d\"/>\n<path class=\"axis\" d=\"M%d %d V%d H%d\"/>\n", left, top, left+plot, left, top, bottom, left+plot)
	label(b, "dim", left-6, float64(top+9), "end", 11, "100 %")
	label(b, "dim", left-6, float64(bottom), "end", 11, "0")
	for j, l := range run.Limits {
		class := fmt.Sprintf("l%d", j%4)
		fmt.Fprintf(b, "<path class=\"level %s\" d=\"", class)
		for at := range d.bins {
			y := float64(bottom) - levelHeight*d.bins[at].Levels[i][j]
			fmt.Fprintf(b, "%s%.1f %.1fH%.1f", pen(at), d.x(at), y, d.x(at+1))
		}
		b.WriteString("\"/>\n")
		x := float64(left + 220*j)
		fmt.Fprintf(b, "<path class=\"level %s\" d=\"M%.1f %d h14\"/>\n", class, x, bottom+31)
		label(b, "dim", x+20, float64(bottom+35), "start", 11, l.Kind.String()+" "+rulesOf(l))
	}
	if len(d.bins) > 0 {
		layout := "15:04:05"
		if d.days {
			layout = "2006-01-02 15:04"
		}
		label(b, "dim", left, float64(bottom+15), "start", 11, clock(d.start, layout))
		label(b, "dim", left+plot, float64(bottom+15), "end", 11, clock(d.start+int64(len(d.bins))*d.width.Microseconds(), layout))
	}
}

func pen(at int) string {
	if at == 0 {
		return "M"
	}
	return "L"
}

// rulesOf is the rules of a limit.
func rulesOf(l *simulation.Limit) string {
	text := ""
	for i, r := range l.Rules {
		if i > 0 {
			text += " "
		}
		text += r.Rule.String()
	}
	return text
}
