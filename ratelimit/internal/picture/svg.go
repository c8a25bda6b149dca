package main

import (
	"bytes"
	"fmt"
	"time"
)

// panel is one half of a picture.
type panel struct {
	title string
	course
}

const (
	width, left, right = 790, 88, 20
	panelHeight        = 268
	top                = 64 // of the first panel
	square             = 6  // of a call
	callsBase          = 132
	passedBase         = 162
	levelBase          = 236
	levelHeight        = 50
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui, sans-serif" font-size="12" role="img">
<title>%s</title>
<style>
.bg{fill:#fff}.ink{fill:#1f2328}.dim{fill:#59636e}.axis{stroke:#8c959f;fill:none}.grid{stroke:#d8dee4;fill:none}
.yes{fill:#0969da}.no{fill:none;stroke:#bc4c00;stroke-width:1.4}.pass{stroke:#0969da;stroke-width:1.4}.level{stroke:#8250df;stroke-width:1.6;fill:none}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.ink{fill:#e6edf3}.dim{fill:#9198a1}.axis{stroke:#656c76}.grid{stroke:#2a313c}
.yes{fill:#4493f8}.no{stroke:#f0883e}.pass{stroke:#4493f8}.level{stroke:#bc8cff}}
</style>
<rect class="bg" width="100%%" height="100%%"/>
`

// svg draws panels below each other.
func svg(title string, panels []panel) []byte {
	var b bytes.Buffer
	height := top + panelHeight*len(panels)
	fmt.Fprintf(&b, head, width, height, width, height, title)
	fmt.Fprintf(&b, "<text class=\"ink\" x=\"%d\" y=\"24\" font-size=\"16\" font-weight=\"600\">%s</text>\n", left, title)
	legend(&b)
	for i, p := range panels {
		fmt.Fprintf(&b, "<g transform=\"translate(0 %d)\">\n", top+panelHeight*i)
		p.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func legend(b *bytes.Buffer) {
	x := left
	item := func(mark, text string, wide int) {
		fmt.Fprintf(b, "<g transform=\"translate(%d 44)\">%s<text class=\"dim\" x=\"14\" y=\"4\">%s</text></g>\n", x, mark, text)
		x += wide
	}
	item(`<rect class="yes" x="2" y="-4" width="8" height="8"/>`, "call allowed", 110)
	item(`<path class="no" d="M3 -3l6 6M9 -3l-6 6"/>`, "call denied", 110)
	item(`<path class="pass" d="M6 -6v12"/>`, "call goes on", 116)
	item(`<path class="level" d="M0 0h11"/>`, "remaining permits", 130)
}

// across is where a time stands.
func across(t time.Duration) float64 {
	return left + float64(t)/float64(length)*(width-left-right)
}

func (p panel) draw(b *bytes.Buffer) {
	fmt.Fprintf(b, "<text class=\"ink\" x=\"%d\" y=\"14\" font-weight=\"600\">%s</text>\n", left, p.title)
	for t := time.Duration(0); t <= length; t += 500 * time.Millisecond {
		fmt.Fprintf(b, "<path class=\"grid\" d=\"M%.1f 26V%d\"/><text class=\"dim\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.1f s</text>\n",
			across(t), levelBase, across(t), levelBase+16, t.Seconds())
	}
	fmt.Fprintf(b, "<path class=\"axis\" d=\"M%d %dH%d\"/><path class=\"axis\" d=\"M%d %dH%d\"/>\n", left, callsBase, width-right, left, levelBase, width-right)
	passed := 0
	for _, c := range p.calls {
		if c.allowed && c.goesOn < length {
			passed++
		}
	}
	label(b, callsBase-42, "calls at once")
	label(b, passedBase-4, fmt.Sprint(passed, " pass"))
	label(b, levelBase-levelHeight/2+4, "remaining")
	p.drawCalls(b)
	p.drawLevels(b)
}

func label(b *bytes.Buffer, y int, text string) {
	fmt.Fprintf(b, "<text class=\"dim\" x=\"%d\" y=\"%d\" text-anchor=\"end\" font-size=\"11\">%s</text>\n", left-6, y, text)
}

// drawCalls stacks the calls of one moment, and marks below when those that are allowed go on.
func (p panel) drawCalls(b *bytes.Buffer) {
	stacked := map[time.Duration]int{}
	for _, c := range p.calls {
		x, y := across(c.at)-square/2, callsBase-(square+1)*(stacked[c.at]+1)
		stacked[c.at]++
		if !c.allowed {
			fmt.Fprintf(b, "<path class=\"no\" d=\"M%.1f %dl4 4m0 -4l-4 4\"/>\n", x+1, y+1)
			continue
		}
		fmt.Fprintf(b, "<rect class=\"yes\" x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\"/>", x, y, square, square)
		if c.goesOn < length {
			fmt.Fprintf(b, "<path class=\"pass\" d=\"M%.1f %dv-14\"/>\n", across(c.goesOn), passedBase)
		}
	}
}

// drawLevels draws the steps of what remains.
func (p panel) drawLevels(b *bytes.Buffer) {
	for _, n := range []int{0, rate} {
		fmt.Fprintf(b, "<text class=\"dim\" x=\"%d\" y=\"%d\" text-anchor=\"end\" font-size=\"10\">%d</text>\n", left-6, levelBase-n*levelHeight/rate+4, n)
	}
	before := int64(-1)
	b.WriteString(`<path class="level" d="`)
	for _, l := range p.levels {
		if l.remaining == before {
			continue
		}
		x, y := across(l.at), levelBase-int(l.remaining)*levelHeight/rate
		if before < 0 {
			fmt.Fprintf(b, "M%.1f %d", x, y)
		} else {
			fmt.Fprintf(b, "H%.1fV%d", x, y)
		}
		before = l.remaining
	}
	fmt.Fprintf(b, "H%.1f\"/>\n", across(length))
}
