package traffic

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

func known(what string) bool { return slices.Contains(Columns, what) }

// column returns the name of a column.
func column(names map[string]string, what string) string {
	if name, ok := names[what]; ok {
		return name
	}
	return what
}

// set sets what a column says of a call.
func (r *record) set(what string, value []byte, clock *clock) (err error) {
	value = absent(bytes.TrimSpace(value))
	switch what {
	case "time":
		r.at, err = clock.parse(value)
	case "address":
		r.addr = value
	case "user":
		r.user = value
	case "method":
		r.method = value
	case "key":
		r.key = value
	case "cost":
		r.cost, err = parseNumber("cost", value, r.cost)
	case "status":
		var status int64
		status, err = parseNumber("status", value, 0)
		r.status = int(status)
	}
	return err
}

// parseNumber reads an integer, 2 or 2.0; where there is nothing it is none.
func parseNumber(what string, value []byte, none int64) (int64, error) {
	if len(value) == 0 {
		return none, nil
	}
	n, err := strconv.ParseInt(string(value), 10, 32)
	if err != nil {
		x, wrong := strconv.ParseFloat(string(value), 64)
		if n = int64(x); wrong != nil || float64(n) != x || n > math.MaxInt32 || bytes.ContainsAny(value, "xX_") {
			n = -1
		}
	}
	if n < 0 {
		return 0, fmt.Errorf("%s %q, want an integer of 0 or more", what, value)
	}
	return n, nil
}

// clock reads times. Many of them are the one before.
type clock struct {
	read func(text string) (at int64, err error)
	last []byte
	at   int64
}

func (c *clock) parse(text []byte) (int64, error) {
	if len(c.last) > 0 && bytes.Equal(text, c.last) {
		return c.at, nil
	}
	at, err := c.read(string(text))
	if err == nil {
		c.last, c.at = append(c.last[:0], text...), at
	}
	return at, err
}

// layouts are those of times that are not numbers.
var layouts = []string{
	time.RFC3339Nano,
	"2006-01-02T15:04:05.999999999",
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999 -0700",
	"2006-01-02 15:04:05.999999999",
	"02/Jan/2006:15:04:05 -0700",
	"2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02T15:04:05.999999999Z07",
	"2006-01-02 15:04:05.999999999Z0700",
	"2006-01-02 15:04:05.999999999Z07",
}

// parseTime reads a time: of RFC 3339, with a zone of ISO 8601 or without one (UTC), or as seconds, ms, µs or ns since 1970, whichever is nearest
// to our days.
func parseTime(text string) (int64, error) {
	if text == "" {
		return 0, errors.New("no time, want one")
	}
	dated := len(text) > 4 && text[4] == '-' // as most are that are no numbers
	if dated {
		if at, ok := parseDate(text); ok {
			return at, nil
		}
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return sinceEpoch(text, n)
	}
	if !dated {
		if at, ok := parseDate(text); ok {
			return at, nil
		}
	}
	return 0, fmt.Errorf("time %q, want one such as 2006-01-02T15:04:05.000Z, or seconds since 1970", text)
}

// parseDate reads a time in one of the layouts, T and Z in small letters too.
func parseDate(text string) (at int64, ok bool) {
	if len(text) > len(time.DateOnly) && text[len(time.DateOnly)] == 't' || strings.HasSuffix(text, "z") {
		text = strings.ToUpper(text)
	}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMicro(), true
		}
	}
	return 0, false
}

// sinceEpoch reads a number of seconds, ms, µs or ns, which is decimal. Integers are exact.
func sinceEpoch(text string, n float64) (int64, error) {
	if !(n >= 0) || n >= 1e19 || strings.ContainsAny(text, "xX_") {
		return 0, fmt.Errorf("time %q, want seconds since 1970", text)
	}
	mul, div := int64(1), int64(1) // of a µs
	switch {
	case n < 1e11:
		mul = 1e6
	case n < 1e14:
		mul = 1e3
	case n >= 1e17:
		div = 1e3
	}
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		return whole * mul / div, nil
	}
	return int64(math.Round(n * float64(mul) / float64(div))), nil
}

// noHeader is what keeps a line from having the names of columns, or the field of the time.
type noHeader struct{ error }

// csvParser reads records of CSV whose columns have the names in the first line. A record is one line.
func csvParser(first []byte, names map[string]string) (parser, error) {
	header, err := fields(first, nil)
	if err != nil {
		return nil, &noHeader{fmt.Errorf("%s: %w, want the names of columns", excerpt(first), err)}
	}
	at := map[string]int{}
	for i, name := range header {
		at[string(bytes.TrimSpace(name))] = i
	}
	var columns []int
	var whats []string
	for _, what := range Columns {
		name := column(names, what)
		i, ok := at[name]
		if _, asked := names[what]; !ok && (asked || what == "time") {
			return nil, &noHeader{fmt.Errorf("the first line has the columns %s, want %q for the %s", cut(fmt.Sprintf("%q", header), 300), name, what)}
		}
		if ok {
			columns, whats = append(columns, i), append(whats, what)
		}
	}
	seen, clock := false, clock{read: parseTime}
	var texts [][]byte
	return func(line []byte, r *record) (err error) {
		if !seen {
			seen = true
			return errNone
		}
		if texts, err = fields(line, texts[:0]); err != nil {
			return fmt.Errorf("%s: %w", excerpt(line), err)
		}
		if len(texts) != len(header) {
			return fmt.Errorf("%d fields, want %d, as many as columns", len(texts), len(header))
		}
		for j, i := range columns {
			if err := r.set(whats[j], texts[i], &clock); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// fields reads one line of CSV, and appends its fields to list.
func fields(line []byte, list [][]byte) ([][]byte, error) {
	whole, before := line, len(list)
	quotes := bytes.IndexByte(line, '"') >= 0
	if quotes && line[len(line)-1] == '\r' { // which encoding/csv does not take for a part of the last field
		return anyFields(whole, list)
	}
	for {
		field, rest, more := bytes.Cut(line, []byte(","))
		if quotes && bytes.IndexByte(field, '"') >= 0 {
			var ok bool
			if field, rest, more, ok = quoted(line); !ok {
				return anyFields(whole, list[:before])
			}
		}
		list = append(list, field)
		if !more {
			return list, nil
		}
		line = rest
	}
}

// quoted reads a field in quotes at the beginning of a line, and what is behind it, if the field has no quote within.
func quoted(line []byte) (field, rest []byte, more, ok bool) {
	if line[0] != '"' {
		return nil, nil, false, false
	}
	end := 1 + bytes.IndexByte(line[1:], '"')
	switch {
	case end == 0:
		return nil, nil, false, false
	case end+1 == len(line):
		return line[1:end], nil, false, true
	case line[end+1] == ',':
		return line[1:end], line[end+2:], true, true
	}
	return nil, nil, false, false
}

// anyFields is fields of a line that has quotes in its fields, or is wrong.
func anyFields(line []byte, list [][]byte) ([][]byte, error) {
	texts, err := csv.NewReader(bytes.NewReader(line)).Read()
	for _, text := range texts {
		list = append(list, []byte(text))
	}
	return list, err
}
