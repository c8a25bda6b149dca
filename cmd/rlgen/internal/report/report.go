// Package report says what a simulation has found: as text, JSON, a picture and a page.
package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/simulation"
	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
	"github.com/rlgen/rlgen/rules"
)

// Report is what there is to say of a simulation.
type Report struct {
	*simulation.Simulation
	// Source is what the traffic is, in words.
	Source string
	// Log has what became of the lines of a log; nil where the traffic was made.
	Log *traffic.Stats
	// Bytes returns the most memory that limit i of a policy takes in Redis for one id.
	Bytes func(p *rules.Policy, i int) int64
}

const topIDs = 5

// directive is a limit as its directive has it, without what the simulation set.
func directive(l *simulation.Limit) string {
	own := *l.Limit
	own.Name, own.Prefix, own.Bucket = "", "", ""
	return own.String()
}

// memory is the most that a limit took in Redis.
func (r *Report) memory(run *simulation.Run, i int) int64 {
	return r.Bytes(run.Policy, i) * int64(run.Limits[i].MostIDs())
}

// span is the time from the first call to the last one.
func (r *Report) span() time.Duration { return traffic.Between(r.First, r.Last) }

func stamp(at int64) time.Time { return time.UnixMicro(at).UTC() }

// count is a number with commas between thousands.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// plural is a number of things.
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}

// unselected says how many lines are left out for their method.
func unselected(log *traffic.Stats) string {
	if log.Left == 1 {
		return "1 line is of another method"
	}
	return count(log.Left) + " lines are of other methods"
}

// unread says how many lines are left out for what they are.
func unread(log *traffic.Stats) string {
	text := fmt.Sprintf("%s of %s left out", count(log.Bad), plural(log.Lines, "line"))
	if log.Late > 0 {
		text += fmt.Sprintf(", %s for being too late (-within)", count(log.Late))
	}
	return text
}

// percent is a part of a whole, of which there may be nothing.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// memoryText is a number of bytes with two or three digits that count.
func memoryText(n int64) string {
	const units = "kMGT"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	if value < 10 {
		return fmt.Sprintf("%.1f %cB", value, units[unit])
	}
	return fmt.Sprintf("%.0f %cB", value, units[unit])
}

// length is a duration without zeros at its end.
func length(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// hits says which ids a limit denied most.
func hits(l *simulation.Limit) string {
	n, more := l.Hit.Len()
	if n == 0 {
		return ""
	}
	of := count(int64(n))
	if more {
		of = "more than " + of
	}
	var parts []string
	for _, h := range l.Hit.First(topIDs) {
		text := name(l, h.ID) + " " + count(h.Count)
		if h.Error > 0 {
			text += fmt.Sprintf(" (or up to %s fewer)", count(h.Error))
		}
		parts = append(parts, text)
	}
	if n > topIDs {
		parts = append(parts, "…")
	}
	return fmt.Sprintf("%s denied: %s", of, strings.Join(parts, ", "))
}

// fact is something to say of a limit.
type fact struct{ what, text string }

// facts are those of a limit that are more than nothing.
func (r *Report) facts(run *simulation.Run, i int, l *simulation.Limit) (facts []fact) {
	say := func(what, format string, args ...any) {
		facts = append(facts, fact{what, fmt.Sprintf(format, args...)})
	}
	if l.LongestRetry > 0 {
		say("retry after", "at most %s", length(l.LongestRetry))
	}
	if l.LongestDelay > 0 {
		say("delay", "at most %s", length(l.LongestDelay))
	}
	if l.Patient > 0 {
		say("wait", "%s denied that would have had room within %s", count(l.Patient), length(l.Wait))
	}
	if l.NoID > 0 {
		say("no id", "%s denied for want of one", count(l.NoID))
	}
	if l.TooBig > 0 {
		say("cost", "%s denied that cost more than is ever allowed", count(l.TooBig))
	}
	if text := hits(l); text != "" && l.Kind != rules.Global {
		say("ids", "%s", text)
	}
	ids := plural(int64(l.MostIDs()), "id")
	if l.Kind == rules.Global {
		ids = "one key"
	}
	say("Redis", "at most %s for %s", memoryText(r.memory(run, i)), ids)
	return facts
}

// name is an id for people.
func name(l *simulation.Limit, id string) string {
	if l.Kind == rules.Global {
		return "all"
	}
	if strings.ContainsFunc(id, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' || r == ',' }) {
		return strconv.Quote(id)
	}
	return id
}
