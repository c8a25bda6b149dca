package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"
)

// A row compares ours with theirs by a metric. It may be at least must, or at most, and is to be goal. Where theirs is
// empty the figure is ours alone.
type row struct {
	name         string
	ours, theirs string
	metric       metric
	must, goal   float64 // 0: there is none
}

// metric is what of two samples counts.
type metric struct {
	of     func(sample) float64
	unit   string
	lower  bool // less is better
	differ bool // the figure is the difference, and not the ratio
}

var (
	perSecond = metric{of: func(s sample) float64 { return s.perSecond }, unit: "x"}
	nanos     = metric{of: func(s sample) float64 { return s.nanos }, unit: "x", lower: true}
	nanosMore = metric{of: func(s sample) float64 { return s.nanos }, unit: " ns", lower: true, differ: true}
	allocs    = metric{of: func(s sample) float64 { return s.allocs }, unit: "x", lower: true}
	allocsOf  = metric{of: func(s sample) float64 { return s.allocs }, unit: "", lower: true}
	allocMore = metric{of: func(s sample) float64 { return s.allocs }, unit: "", lower: true, differ: true}
	bytes     = metric{of: func(s sample) float64 { return s.bytes }, unit: "x", lower: true}
	bytesOf   = metric{of: func(s sample) float64 { return s.bytes }, unit: " B", lower: true}
)

// results are the samples of all rounds by contestant.
type results map[string][]sample

// figures are a row's, one for each round, in order.
func (r results) figures(row row) []float64 {
	var all []float64
	for i, s := range r[row.ours] {
		figure := row.metric.of(s)
		if row.theirs != "" && row.metric.differ {
			figure -= row.metric.of(r[row.theirs][i])
		} else if row.theirs != "" {
			figure /= row.metric.of(r[row.theirs][i])
		}
		all = append(all, figure)
	}
	slices.Sort(all)
	return all
}

// reaches says whether a figure is as good as another, of which 0 is none.
func (m metric) reaches(figure, want float64) bool {
	return want == 0 || m.lower && figure <= want || !m.lower && figure >= want
}

// print writes the table.
func print(to io.Writer, rows []row, results results) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "measure\tfigure\tleast\tmost\tmust\tgoal\t")
	for _, row := range rows {
		if row.ours == "" {
			fmt.Fprintf(w, "%s\tnot built\t\t\t%s\t%s\t\n", row.name, row.metric.text(row.must), row.metric.text(row.goal))
			continue
		}
		all := results.figures(row)
		median := all[len(all)/2]
		verdict := "goal"
		if !row.metric.reaches(median, row.goal) {
			verdict = "must"
		}
		if !row.metric.reaches(median, row.must) {
			verdict = "FALLS SHORT"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.name, row.metric.show(median), row.metric.show(all[0]),
			row.metric.show(all[len(all)-1]), row.metric.text(row.must), row.metric.text(row.goal), verdict)
	}
	w.Flush()
}

func (m metric) show(figure float64) string {
	if m.unit == " ns" || m.unit == " B" {
		return strconv.FormatFloat(figure, 'f', 1, 64) + m.unit
	}
	return fmt.Sprintf("%.2f%s", figure, m.unit)
}

// text is a bound of the table.
func (m metric) text(bound float64) string {
	if bound == 0 {
		return ""
	}
	return strconv.FormatFloat(bound, 'f', -1, 64) + m.unit
}

// print writes the medians of what was measured.
func (r results) print(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "contestant\t/s\tns\town µs\tserver µs\tallocs\tbytes\t")
	for _, name := range slices.Sorted(maps.Keys(r)) {
		middle := func(of func(sample) float64) string {
			all := slices.Clone(r[name])
			slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(of(a), of(b)) })
			return strconv.FormatFloat(of(all[len(all)/2]), 'f', 1, 64)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, middle(perSecond.of), middle(nanos.of),
			middle(func(s sample) float64 { return s.own }), middle(func(s sample) float64 { return s.server }), middle(allocs.of), middle(bytes.of))
	}
	fmt.Fprintln(w)
	w.Flush()
}
