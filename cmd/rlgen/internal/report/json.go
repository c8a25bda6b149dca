package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/simulation"
)

// simulationJSON is the report as JSON; "rlgen help simulate" says what each field is. Times are RFC 3339, durations are Go's.
type simulationJSON struct {
	Source     string          `json:"source"`
	Calls      int64           `json:"calls"`
	First      *time.Time      `json:"first,omitempty"`
	Last       *time.Time      `json:"last,omitempty"`
	Log        *logJSON        `json:"log,omitempty"`
	Candidates []candidateJSON `json:"candidates"`
	Course     courseJSON      `json:"course"`
}

type logJSON struct {
	Lines int64    `json:"lines"`
	Bad   int64    `json:"bad"`
	Late  int64    `json:"late"`
	Other int64    `json:"other"`
	Why   []string `json:"why,omitempty"`
	// Broken are the files that cannot be read, or not to their ends.
	Broken []string `json:"broken,omitempty"`
}

type candidateJSON struct {
	Name    string      `json:"name"`
	Allowed int64       `json:"allowed"`
	Denied  int64       `json:"denied"`
	Limits  []limitJSON `json:"limits"`
	Assumed []string    `json:"assumed,omitempty"`
}

type limitJSON struct {
	Directive    string     `json:"directive"`
	Calls        int64      `json:"calls"`
	Denied       int64      `json:"denied"`
	NoID         int64      `json:"noID,omitempty"`
	TooBig       int64      `json:"tooBig,omitempty"`
	Patient      int64      `json:"patient,omitempty"`
	LongestRetry string     `json:"longestRetry,omitempty"`
	LongestDelay string     `json:"longestDelay,omitempty"`
	MostIDs      int        `json:"mostIDs"`
	MostBytes    int64      `json:"mostBytes"`
	Rules        []ruleJSON `json:"rules"`
	DeniedIDs    int        `json:"deniedIDs"`
	MoreIDs      bool       `json:"moreIDs,omitempty"`
	Top          []hitJSON  `json:"top,omitempty"`
}

type ruleJSON struct {
	Count  int64      `json:"count"`
	Window string     `json:"window"`
	Denied int64      `json:"denied"`
	Peak   int64      `json:"peak"`
	PeakID string     `json:"peakID,omitempty"`
	PeakAt *time.Time `json:"peakAt,omitempty"`
}

type hitJSON struct {
	ID     string `json:"id"`
	Denied int64  `json:"denied"`
	Error  int64  `json:"error,omitempty"`
}

type courseJSON struct {
	Width string    `json:"width,omitempty"`
	Bins  []binJSON `json:"bins"`
}

// binJSON is a bin in which there are calls.
type binJSON struct {
	At    time.Time `json:"at"`
	Calls int64     `json:"calls"`
	// Allowed has a number for each candidate.
	Allowed []int64 `json:"allowed"`
}

const (
	topInJSON  = 100
	binsInJSON = 1000
)

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	out := simulationJSON{Source: r.Source, Calls: r.Calls, Candidates: []candidateJSON{}}
	if r.Calls > 0 {
		first, last := stamp(r.First), stamp(r.Last)
		out.First, out.Last = &first, &last
		out.Course = r.course()
	}
	if r.Log != nil {
		out.Log = &logJSON{r.Log.Lines, r.Log.Bad, r.Log.Late, r.Log.Left, r.Log.First, r.Log.Broken}
	}
	for _, run := range r.Runs {
		c := candidateJSON{Name: run.Name, Allowed: run.Allowed, Denied: run.Denied, Assumed: run.Assumed}
		for i, l := range run.Limits {
			c.Limits = append(c.Limits, r.limitJSON(run, i, l))
		}
		out.Candidates = append(out.Candidates, c)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	return enc.Encode(out)
}

func (r *Report) limitJSON(run *simulation.Run, i int, l *simulation.Limit) limitJSON {
	out := limitJSON{
		Directive: directive(l), Calls: l.Calls, Denied: l.Denied, NoID: l.NoID, TooBig: l.TooBig, Patient: l.Patient,
		LongestRetry: durationJSON(l.LongestRetry), LongestDelay: durationJSON(l.LongestDelay),
		MostIDs: l.MostIDs(), MostBytes: r.memory(run, i),
	}
	out.DeniedIDs, out.MoreIDs = l.Hit.Len()
	for _, h := range l.Hit.First(topInJSON) {
		out.Top = append(out.Top, hitJSON{h.ID, h.Count, h.Error})
	}
	for _, rule := range l.Rules {
		j := ruleJSON{Count: rule.Count, Window: rule.Window.String(), Denied: rule.Denied, Peak: rule.Peak, PeakID: rule.PeakID}
		if rule.Peak > 0 {
			at := stamp(rule.PeakAt)
			j.PeakAt = &at
		}
		out.Rules = append(out.Rules, j)
	}
	return out
}

func durationJSON(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (r *Report) course() courseJSON {
	bins, width := r.Bins.Merged(binsInJSON)
	c := courseJSON{Width: width.String()}
	for i, b := range bins {
		if b.Calls > 0 {
			at := stamp(r.Bins.Start + int64(i)*width.Microseconds())
			c.Bins = append(c.Bins, binJSON{At: at, Calls: b.Calls, Allowed: b.Allowed})
		}
	}
	return c
}
