package traffic

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Log says how to read the log of calls.
type Log struct {
	// Format is that of the lines; Auto for what the first one looks like.
	Format Format
	// Columns names the columns of CSV and the fields of JSON by what they are: see [Columns].
	Columns map[string]string
	// Match selects calls by their method; nil for all.
	Match *regexp.Regexp
	// Within is how much earlier than the latest line before it a line may be.
	Within time.Duration
	// Names are those of address, user and key which are of use; nil for all. Calls have no others.
	Names []string
	// Strict makes a bad line, a file that is no log, and one that cannot be read to its end, an error. Otherwise it is counted, and left out.
	Strict bool
}

// Format is that of a log's lines.
type Format string

const (
	Auto Format = "auto"
	// Common lines are those of the Common Log Format of web servers, or of the combined one, which says more behind it.
	Common Format = "common"
	// CSV has the names of its columns in the first line (RFC 4180).
	CSV Format = "csv"
	// JSONL has one object in each line.
	JSONL Format = "jsonl"
)

// Formats are the formats that logs may have.
var Formats = []string{string(Auto), string(Common), string(CSV), string(JSONL)}

// Columns are what a column can be, in the order of the documentation; each is the name of its column too unless another is
// given. Only the time is required.
var Columns = []string{"time", "address", "user", "method", "key", "cost", "status"}

// Stats is what became of a log's lines. Blank ones are not counted.
type Stats struct {
	Lines int64 // read so far
	Bad   int64 // not read, for a reason
	Late  int64 // of those, earlier than they may be
	Left  int64 // not selected by their method
	// First has the reasons of the first bad lines, each with its file and line.
	First []string
	// Broken says which files could not be read to their ends, such as one that is cut off, and why; what stands before that is read. It says too which
	// files are no logs.
	Broken []string
	// Bytes have been read, of a compressed file as they stand there.
	Bytes int64
}

const shownFaults = 5

// File is a part of a log.
type File struct {
	Name string // for messages
	io.Reader
}

// Reader is the traffic of a log.
type Reader struct {
	Stats
	log     Log
	files   []File // that are not yet read
	name    string
	in      counting
	number  int64 // of the line in its file
	lines   *bufio.Reader
	parse   parser
	strange error  // what is wrong with the file's first line, as long as nothing is known to be the first of a log
	begun   bool   // some line of a file was
	nothing error  // why there is nothing to read in a file
	one     record // of the line
	wants   wants
	names   [identities]Names
	block   block
	decided int64 // the time up to which calls have been
	latest  int64
	ahead   place // where that stands
	queue   queue // that have been read and may be overtaken
	ended   error
	long    []byte
}

var _ Source = (*Reader)(nil)

// place is a line of a file.
type place struct {
	name   string
	number int64
}

// parser reads one line.
type parser func(line []byte, r *record) error

// record is what a line says of a call, in the line's memory.
type record struct {
	at                      int64
	addr, user, method, key []byte
	cost                    int64
	status                  int
}

// errNone is a line that is no call, such as the names of columns.
var errNone = errors.New("no call")

// counting counts what is read of a file after the other.
type counting struct {
	io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

const bufferSize = 1 << 18

// Read returns the traffic of files, one behind the other, each compressed by gzip or not.
func (l Log) Read(files ...File) (*Reader, error) {
	for what := range l.Columns {
		if !known(what) {
			return nil, fmt.Errorf("found a column for %q, want one for %s", what, strings.Join(Columns, ", "))
		}
	}
	if !slices.Contains(Formats, string(l.Format)) && l.Format != "" {
		return nil, fmt.Errorf("format %q, want %s", l.Format, strings.Join(Formats, ", "))
	}
	return &Reader{log: l, files: files, wants: l.wants()}, nil
}

// open goes on to the next file. Where there is nothing to read in any of them, the end says why there is not in the first.
func (r *Reader) open() error {
	switch {
	case len(r.files) > 0:
	case r.nothing != nil && !r.begun:
		return r.nothing
	default:
		return io.EOF
	}
	r.name, r.in.Reader, r.files = r.files[0].Name, r.files[0].Reader, r.files[1:]
	r.parse, r.strange, r.number = nil, nil, 0
	raw := bufio.NewReaderSize(&r.in, bufferSize)
	r.lines = raw
	if magic, _ := raw.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(raw)
		if err != nil {
			r.broken(err)
			return nil
		}
		r.lines = bufio.NewReaderSize(z, bufferSize)
	}
	if mark, _ := r.lines.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		r.lines.Discard(3)
	}
	return nil
}

// Next returns the next call of the log.
func (r *Reader) Next(c *Call) error {
	for {
		if first := r.queue.first(); first != nil && (r.ended != nil || first.At <= r.latest-r.log.Within.Microseconds()) {
			*c = first.Call
			r.queue.drop()
			return nil
		}
		if r.ended != nil {
			return r.ended
		}
		r.fill()
	}
}

// fill reads the next lines into the queue.
func (r *Reader) fill() {
	for r.ended == nil && !r.block.full() {
		r.read()
	}
	r.block.settle(&r.names, r.decided, &r.queue)
}

// Decided lets the names of calls up to a time be forgotten.
func (r *Reader) Decided(at int64) { r.decided = at }

// read reads one line into the block.
func (r *Reader) read() {
	if r.lines == nil {
		if err := r.open(); err != nil {
			r.ended = err
		}
		return
	}
	line, err := r.line()
	r.Bytes = r.in.n
	if err != nil && err != io.EOF {
		r.broken(err) // what is left of a line is none
		return
	}
	if err != nil && len(line) == 0 {
		r.done()
		return
	}
	r.number++
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	if r.parse == nil && !r.begin(line) {
		return
	}
	r.take(line)
}

// begin says whether a line is the first one of a log. Before it there may be a few others, such as what a server says of itself.
func (r *Reader) begin(line []byte) bool {
	var err error
	if r.parse, err = r.log.parser(line); err == nil {
		r.strange, r.begun = nil, true
		return true
	}
	at := fmt.Errorf("%s:%d: %w", r.name, r.number, err)
	if r.strange == nil {
		r.strange = at
	}
	if !errors.As(err, new(*noHeader)) {
		r.ended = at
		return false
	}
	r.Lines++
	if r.bad(err); r.number >= mostStrange {
		r.done()
	}
	return false
}

const mostStrange = 100 // lines of a file that are looked at

// done is behind the last line of a file that is read. One without the first line of a log is left out.
func (r *Reader) done() {
	r.lines = nil
	if r.strange != nil {
		r.leave(r.strange, fmt.Sprintf("%s is no log: %v", r.name, r.strange))
	}
}

// broken takes note that the rest of a file cannot be read.
func (r *Reader) broken(err error) {
	r.lines = nil
	if r.number == 0 {
		r.leave(fmt.Errorf("%s: %w", r.name, err), fmt.Sprintf("%s cannot be read: %v", r.name, err))
		return
	}
	text := fmt.Sprintf("%s cannot be read behind line %d: %v", r.name, r.number, err)
	r.leave(errors.New(text), text)
}

// leave takes note of why a file, or what is left of it, is not read.
func (r *Reader) leave(why error, text string) {
	r.Broken = append(r.Broken, text)
	if r.nothing == nil {
		r.nothing = why
	}
	if r.log.Strict && r.ended == nil {
		r.ended = why
	}
}

// take takes the call of a line.
func (r *Reader) take(line []byte) {
	r.one = record{cost: 1}
	err := r.parse(line, &r.one)
	if err == errNone {
		return
	}
	r.Lines++
	switch {
	case err != nil:
		r.bad(err)
	case r.log.Match != nil && !r.log.Match.Match(r.one.method):
		r.Left++
	default:
		r.put(&r.one)
	}
}

// line returns the next line, which is valid until the next call.
func (r *Reader) line() ([]byte, error) {
	line, err := r.lines.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, err
	}
	r.long = append(r.long[:0], line...)
	for err == bufio.ErrBufferFull {
		line, err = r.lines.ReadSlice('\n')
		if len(r.long) < maxLine {
			r.long = append(r.long, line...)
		}
	}
	return r.long, err
}

const maxLine = 1 << 20 // of which something is kept

// bad takes note of a line that says nothing.
func (r *Reader) bad(err error) {
	r.Bad++
	why := fmt.Sprintf("%s:%d: %v", r.name, r.number, err)
	if len(r.First) < shownFaults {
		r.First = append(r.First, why)
	}
	if r.log.Strict {
		r.ended = errors.New(why)
	}
}

// put puts a call into the block.
func (r *Reader) put(one *record) {
	switch {
	case one.at < 0:
		r.bad(fmt.Errorf("its time is %v, want one since 1970", time.UnixMicro(one.at).UTC().Format(time.DateTime)))
		return
	case one.at < r.latest-r.log.Within.Microseconds():
		r.Late++
		r.bad(fmt.Errorf("it is %v earlier than %s:%d, want at most %v", Between(one.at, r.latest), r.ahead.name, r.ahead.number, r.log.Within))
		return
	}
	r.block.put(one, r.wants)
	if one.at > r.latest || r.ahead.number == 0 {
		r.latest, r.ahead = one.at, place{r.name, r.number}
	}
}

// parser returns that of the log, of which line is the first.
func (l *Log) parser(line []byte) (parser, error) {
	format := l.Format
	guessed := format == "" || format == Auto
	if guessed {
		format = guess(line)
	}
	switch format {
	case Common:
		if len(l.Columns) > 0 {
			return nil, errors.New("found names of columns for an access log, whose lines have their places, want none, or a log of another format")
		}
		return commonParser(), nil
	case JSONL:
		parse := l.jsonParser()
		if err := parse(line, new(record)); guessed && errors.As(err, new(*noHeader)) {
			return nil, err // as are what some servers say of themselves
		}
		return parse, nil
	case CSV:
		return csvParser(line, l.Columns)
	}
	return nil, fmt.Errorf("format %q, want %s", format, strings.Join(Formats, ", "))
}

// guess returns what a log is whose first line this is.
func guess(line []byte) Format {
	switch {
	case line[0] == '{':
		return JSONL
	case commonParser()(line, new(record)) == nil:
		return Common
	}
	return CSV
}
