package traffic_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rlgen/rlgen/cmd/rlgen/internal/traffic"
)

// call is one of traffic, with the texts of its names.
type call struct {
	At              int64
	Addr, User, Key string
	Cost            int64
	Status          int
}

// all returns the calls of a source, and the error that ended it, io.EOF aside.
func all(s traffic.Source) (list []call, err error) {
	var c traffic.Call
	for {
		if err := s.Next(&c); err == io.EOF {
			return list, nil
		} else if err != nil {
			return list, err
		}
		list = append(list, call{c.At, c.Addr.String(), c.User.String(), c.Key.String(), c.Cost, c.Status})
	}
}

func read(t *testing.T, log traffic.Log, texts ...string) ([]call, *traffic.Reader, error) {
	t.Helper()
	var files []traffic.File
	for i, text := range texts {
		files = append(files, traffic.File{Name: fmt.Sprintf("log%d", i+1), Reader: strings.NewReader(text)})
	}
	r, err := log.Read(files...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := all(r)
	return list, r, err
}

func at(text string) int64 {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t.UnixMicro()
}

func TestLines(t *testing.T) {
	for _, test := range []struct {
		name    string
		text    string
		columns map[string]string
		want    []call
	}{
		{"common", `203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /orders?page=2 HTTP/1.0" 200 2326` + "\n", nil,
			[]call{{At: at("2000-10-10T20:55:36Z"), Addr: "203.0.113.7", User: "alice", Cost: 1, Status: 200}}},
		{"combined", `2001:db8::1 - - [10/Oct/2000:13:55:36 +0000] "POST /orders HTTP/2.0" 429 0 "http://x/ [y]" "curl/8 \"z\""`, nil,
			[]call{{At: at("2000-10-10T13:55:36Z"), Addr: "2001:db8::", Cost: 1, Status: 429}}},
		{"a user with blanks", `::1 - Alice B [10/Oct/2000:13:55:36 +0000] "-" 408 -`, nil,
			[]call{{At: at("2000-10-10T13:55:36Z"), Addr: "::", User: "Alice B", Cost: 1, Status: 408}}},
		{"a quote in the path", `1.2.3.4 - bob [10/Oct/2000:13:55:36 +0000] "GET /a\"b\\ HTTP/1.1" 500 1 "-" "x"`, nil,
			[]call{{At: at("2000-10-10T13:55:36Z"), Addr: "1.2.3.4", User: "bob", Cost: 1, Status: 500}}},
		{"a backslash before the quote", `1.2.3.4 - bob [10/Oct/2000:13:55:36 +0000] "GET /a\\" 500 1`, nil,
			[]call{{At: at("2000-10-10T13:55:36Z"), Addr: "1.2.3.4", User: "bob", Cost: 1, Status: 500}}},
		{"no other quote", `1.2.3.4 - bob [10/Oct/2000:13:55:36 +0000] "GET /a\" 500 1`, nil,
			[]call{{At: at("2000-10-10T13:55:36Z"), Addr: "1.2.3.4", User: "bob", Cost: 1, Status: 500}}},
		{"csv", "time,user,address,cost\n2026-01-02T03:04:05.000006Z,alice,10.0.0.1,2\n2026-01-02 03:04:06,bob,-,0\n", nil,
			[]call{{At: at("2026-01-02T03:04:05.000006Z"), User: "alice", Addr: "10.0.0.1", Cost: 2}, {At: at("2026-01-02T03:04:06Z"), User: "bob", Cost: 0}}},
		{"csv, other names", "what,\"when\",who\nPOST /,1700000000.5,\"Alice \"\"A\"\", B\"\n", map[string]string{"time": "when", "user": "who", "method": "what"},
			[]call{{At: 1700000000500000, User: `Alice "A", B`, Cost: 1}}},
		{"csv, nothing where it may be", "time,cost,status,user\n1,,,a\n2,-,-,b\n3, ,200.0,c\n4,2.0,2e2,d\n", nil,
			[]call{{At: 1e6, User: "a", Cost: 1}, {At: 2e6, User: "b", Cost: 1}, {At: 3e6, User: "c", Cost: 1, Status: 200}, {At: 4e6, User: "d", Cost: 2, Status: 200}}},
		{"json, nothing where it may be", `{"time":1,"cost":"","status":"-"}` + "\n" + `{"time":2,"cost":2.0,"status":503.0}` + "\n" + `{"time":3,"cost":null}`, nil,
			[]call{{At: 1e6, Cost: 1}, {At: 2e6, Cost: 2, Status: 503}, {At: 3e6, Cost: 1}}},
		{"json", `{"time":1700000000123,"user":7,"address":null,"x":[1]}` + "\r\n\n" + `{"time":"1700000000123456","user":"ü"}`, nil,
			[]call{{At: 1700000000123000, User: "7", Cost: 1}, {At: 1700000000123456, User: "ü", Cost: 1}}},
		{"json, deeper", `{"ts":1700000000123456789,"client":{"ip":"::1","user":{"id":"u"}},"status":503}`, map[string]string{"time": "ts", "address": "client.ip", "user": "client.user.id"},
			[]call{{At: 1700000000123456, User: "u", Addr: "::", Cost: 1, Status: 503}}},
		{"json, a dot in a name", `{"@t":1,"user.id":"a","client":{"ip":"::1"}}` + "\n" + `{"@t":2,"user.id":"a","user":{"id":"b"},"client.ip":"::2"}`, map[string]string{"time": "@t", "user": "user.id", "address": "client.ip"},
			[]call{{At: 1e6, User: "a", Addr: "::", Cost: 1}, {At: 2e6, User: "b", Addr: "::", Cost: 1}}},
		{"byte order mark", "\xef\xbb\xbftime,user\n1,a\n", nil, []call{{At: 1e6, User: "a", Cost: 1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, r, err := read(t, traffic.Log{Columns: test.columns}, test.text)
			if err != nil || r.Bad != 0 {
				t.Fatalf("error %v, bad lines %q, want none", err, r.First)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadLines(t *testing.T) {
	const good = `::1 - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 1`
	for _, test := range []struct{ name, text, why string }{
		{"the first", "logrotate: done\n" + good, `log1:1: the first line has the columns ["logrotate: done"], want "time" for the time`},
		{"the first of json", "listening on :8080\n" + `{"time":1}`, `log1:1: the first line has the columns ["listening on :8080"], want "time" for the time`},
		{"an object before a log", `{"level":"info"}` + "\n" + good, `log1:1: no field "time", want one for the time`},
		{"an object before json", `{"level":"info","time":null}` + "\n" + `{"time":1}`, `log1:1: no field "time", want one for the time`},
		{"an object before csv", `{"level":"info"}` + "\ntime,user\n1,a", `log1:1: no field "time", want one for the time`},
		{"a brace before a log", "{\n" + good, `log1:1: "{": unexpected end of JSON input`},
		{"the first of csv", "users of today\ntime,user\n1,a", `log1:1: the first line has the columns ["users of today"], want "time" for the time`},
		{"another log", good + "\nkernel: oops", `log1:2: "kernel: oops" is no line of an access log, want address, identity, user and [time]`},
		{"a time", good + "\n" + strings.Replace(good, "Oct", "Okt", 1), `log1:2: time "10/Okt/2000:13:55:36 +0000", want one such as 10/Oct/2000:13:55:36 -0700`},
		{"no end", good + "\n" + strings.Replace(good, "]", "", 1), `log1:2: "::1 - - [10/Oct/2000:13:55:36 +0000 \"GET / HTTP/1.1\" 200 1" has no end of its time, want ]`},
		{"json", `{"time":1}` + "\n{", `log1:2: "{": unexpected end of JSON input`},
		{"json without a time", `{"time":1}` + "\n" + `{"user":1}`, `log1:2: no field "time", want one for the time`},
		{"csv", "time,user\n1,a\n2", "log1:3: 1 fields, want 2, as many as columns"},
		{"csv, time", "time,user\nnever,a", `log1:2: time "never", want one such as 2006-01-02T15:04:05.000Z, or seconds since 1970`},
		{"csv, no time", "time,user\n-,a", `log1:2: no time, want one`},
		{"cost", "time,cost\n1,-1", `log1:2: cost "-1", want an integer of 0 or more`},
		{"half a permit", "time,cost\n1,1.5", `log1:2: cost "1.5", want an integer of 0 or more`},
		{"a cost in other digits", "time,cost\n1,0x10", `log1:2: cost "0x10", want an integer of 0 or more`},
		{"too large a cost", "time,cost\n1,3e9", `log1:2: cost "3e9", want an integer of 0 or more`},
		{"a negative time", "time,cost\n-1,1", `log1:2: time "-1", want seconds since 1970`},
		{"before 1970", good + "\n" + strings.Replace(good, "2000", "0001", 1), `log1:2: its time is 0001-10-10 13:55:36, want one since 1970`},
		{"much too late", strings.Replace(good, "2000", "9999", 1) + "\n" + good, `log1:2: it is 2562047h47m16.854775s earlier than log1:1, want at most 0s`},
		{"NaN", "time,cost\nNaN,1", `log1:2: time "NaN", want seconds since 1970`},
	} {
		t.Run(test.name, func(t *testing.T) {
			list, r, err := read(t, traffic.Log{}, test.text)
			if err != nil || r.Bad != 1 || len(r.First) != 1 || r.First[0] != test.why {
				t.Errorf("error %v, %d bad: %q, want %q", err, r.Bad, r.First, test.why)
			}
			if int64(len(list)) != r.Lines-1 {
				t.Errorf("%d calls of %d lines, want all but one", len(list), r.Lines)
			}
			if _, _, err := read(t, traffic.Log{Strict: true}, test.text); err == nil || err.Error() != test.why {
				t.Errorf("Strict: error %v, want %q", err, test.why)
			}
		})
	}
}

func TestNoLog(t *testing.T) {
	for _, test := range []struct {
		name, text string
		log        traffic.Log
		why        string
	}{
		{"zeros without an end", strings.Repeat("\x00", 1<<22), traffic.Log{}, `log1:1: the first line has the columns ["` + strings.Repeat(`\x00`, 74) + `\x…, want "time" for the time`},
		{"no column of the time", "user,ts\n", traffic.Log{}, `log1:1: the first line has the columns ["user" "ts"], want "time" for the time`},
		{"no column that is asked for", "time,user\n", traffic.Log{Columns: map[string]string{"key": "k"}}, `log1:1: the first line has the columns ["time" "user"], want "k" for the key`},
		{"some lines", "time of day\nusers of today\n", traffic.Log{}, `log1:1: the first line has the columns ["time of day"], want "time" for the time`},
		{"no field of the time", strings.Repeat("{\"ts\":1}\n", 200), traffic.Log{}, `log1:1: no field "time", want one for the time`},
		{"many lines", strings.Repeat("user,ts\n", 100) + "time,user\n1,a\n", traffic.Log{}, `log1:1: the first line has the columns ["user" "ts"], want "time" for the time`},
		{"names of columns for places", commonLine("GET /"), traffic.Log{Columns: map[string]string{"key": "k"}}, `log1:1: found names of columns for an access log, whose lines have their places, want none, or a log of another format`},
		{"cut short", "\x1f\x8b\x08", traffic.Log{}, `log1: unexpected EOF`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := read(t, test.log, test.text); err == nil || err.Error() != test.why {
				t.Errorf("error %v, want %q", err, test.why)
			}
		})
	}
	if _, err := (traffic.Log{Columns: map[string]string{"who": "x"}}).Read(); err == nil {
		t.Error("a column for who is taken, want an error")
	}
}

// TestOrder holds that lines out of order come in their order if they are within the bound, and are counted else; also from one
// file to the next.
func TestOrder(t *testing.T) {
	list, r, err := read(t, traffic.Log{Within: 2 * time.Second}, "time,user\n5,a\n3,b\n4,c\n5,d\n2,e\n", "time,user\n6,f\n5,g\n1,h")
	if err != nil {
		t.Fatal(err)
	}
	users := ""
	for _, c := range list {
		users += c.User
	}
	if users != "bcadgf" || r.Late != 2 || r.Bad != 2 || r.Lines != 8 {
		t.Errorf("users %q, %d late of %d bad of %d lines, want bcadgf, 2 of 2 of 8", users, r.Late, r.Bad, r.Lines)
	}
	if want := "log1:6: it is 3s earlier than log1:2, want at most 2s"; r.First[0] != want {
		t.Errorf("the first is %q, want %q", r.First[0], want)
	}
}

func TestMatch(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"csv":         {"time,method\n1,GET /\n2,POST /\n", "^POST /$"},
		"json":        {`{"time":1,"method":"GET /"}` + "\n" + `{"time":2,"method":"POST /"}`, "^POST /$"},
		"no query":    {commonLine("GET /orders?page=2 HTTP/1.0") + commonLine("PUT /orders?page=2 HTTP/1.0"), "^PUT /orders$"},
		"no version":  {commonLine("GET /orders") + commonLine("PUT /orders HTTP/2.0"), "^PUT /orders$"},
		"a quote":     {commonLine("GET /a HTTP/1.1") + commonLine(`GET /a\"b?c=\"d HTTP/1.1`), `^GET /a\\"b$`},
		"no request":  {commonLine("GET / HTTP/1.1") + commonLine("-"), "^-$"},
		"without one": {"time\n1\n", "^$"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := int64(strings.Count(strings.TrimSpace(test.text), "\n")+1) - int64(strings.Count(test.text, "time\n")+strings.Count(test.text, "time,"))
			list, r, err := read(t, traffic.Log{Match: regexp.MustCompile(test.want)}, test.text)
			if err != nil || len(list) != 1 || r.Left != lines-1 || r.Bad != 0 {
				t.Errorf("%v, %d of %d left out, error %v, want the last one alone", list, r.Left, lines, err)
			}
		})
	}
}

func commonLine(request string) string {
	return `::1 - - [10/Oct/2000:13:55:36 +0000] "` + request + `" 200 1 "-" "curl"` + "\n"
}

func TestGzip(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range 10_000 {
		fmt.Fprintf(z, "{\"time\":%d}\n", i)
	}
	z.Close()
	list, r, err := read(t, traffic.Log{}, b.String(), "time\n9999\n")
	if err != nil || len(list) != 10_001 || r.Bytes != int64(b.Len()+10) {
		t.Errorf("%d calls, %d bytes, error %v, want 10001 of %d", len(list), r.Bytes, err, b.Len()+10)
	}
}

// TestCutOff holds that of a file that cannot be read to its end the calls before that are there, and those of the files behind it.
func TestCutOff(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range 10_000 {
		fmt.Fprintf(z, "{\"time\":%d,\"user\":\"%x\"}\n", i, i*i)
	}
	z.Close()
	whole := b.String()
	damaged := []byte(whole)
	damaged[len(damaged)-6] ^= 1 // of the checksum
	for name, test := range map[string]struct {
		text, why string
		whole     bool
	}{
		"cut off":            {whole[:len(whole)/2], "unexpected EOF", false},
		"without its length": {whole[:len(whole)-4], "unexpected EOF", true},
		"damaged":            {string(damaged), "gzip: invalid checksum", true},
	} {
		t.Run(name, func(t *testing.T) {
			list, r, err := read(t, traffic.Log{}, test.text, "time\n10000\n")
			n := len(list) - 1
			if err != nil || r.Bad != 0 || n < 1000 || test.whole != (n == 10_000) || list[n].At != 10_000e6 || list[n-1].At != int64(n-1)*1e6 {
				t.Fatalf("%d calls, %d bad, error %v, want those before the place and that of the next file", len(list), r.Bad, err)
			}
			want := fmt.Sprintf("log1 cannot be read behind line %d: %s", n, test.why)
			if len(r.Broken) != 1 || r.Broken[0] != want {
				t.Errorf("broken are %q, want %q", r.Broken, want)
			}
			if _, _, err := read(t, traffic.Log{Strict: true}, test.text); err == nil || err.Error() != want {
				t.Errorf("Strict: error %v, want %q", err, want)
			}
		})
	}
}

// TestNothing holds that a file in which there is nothing to read is left out, whatever stands before and behind it, and is an error if all files are such.
func TestNothing(t *testing.T) {
	const good = "time\n1\n"
	for name, test := range map[string]struct{ text, why, broken string }{
		"a line": {"logrotate: truncated\n", `log1:1: the first line has the columns ["logrotate: truncated"], want "time" for the time`,
			`log1 is no log: log1:1: the first line has the columns ["logrotate: truncated"], want "time" for the time`},
		"many lines": {strings.Repeat("junk\n", 150), `log1:1: the first line has the columns ["junk"], want "time" for the time`,
			`log1 is no log: log1:1: the first line has the columns ["junk"], want "time" for the time`},
		"a cut head":    {"\x1f\x8b\x08\x00\x00", "log1: unexpected EOF", "log1 cannot be read: unexpected EOF"},
		"no whole line": {"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", "log1: unexpected EOF", "log1 cannot be read: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			list, r, err := read(t, traffic.Log{}, test.text, good)
			if err != nil || len(list) != 1 || len(r.Broken) != 1 || r.Broken[0] != test.broken {
				t.Errorf("%d calls, broken %q, error %v, want 1 and %q", len(list), r.Broken, err, test.broken)
			}
			other := strings.ReplaceAll(test.broken, "log1", "log2")
			if list, r, err := read(t, traffic.Log{}, good, test.text); err != nil || len(list) != 1 || len(r.Broken) != 1 || r.Broken[0] != other {
				t.Errorf("behind the good one: %d calls, broken %q, error %v, want 1 and %q", len(list), r.Broken, err, other)
			}
			if _, _, err := read(t, traffic.Log{}, test.text, "", test.text); err == nil || err.Error() != test.why {
				t.Errorf("alone: error %v, want %q", err, test.why)
			}
			if _, _, err := read(t, traffic.Log{Strict: true}, test.text, good); err == nil || err.Error() != test.why {
				t.Errorf("Strict: error %v, want %q", err, test.why)
			}
		})
	}
}

// TestFormat holds that where the format is said, the first line is like any other.
func TestFormat(t *testing.T) {
	text := strings.Repeat("{\"level\":\"info\"}\n", 200) + "{\"time\":1}\n"
	if list, r, err := read(t, traffic.Log{Format: traffic.JSONL}, text); err != nil || len(list) != 1 || r.Bad != 200 {
		t.Errorf("%d calls, %d bad, error %v, want 1 and 200", len(list), r.Bad, err)
	}
}

// TestLongLine holds that a line of any length is one line.
func TestLongLine(t *testing.T) {
	long := `{"time":1,"x":"` + strings.Repeat("x", 3<<20) + `"}`
	list, r, err := read(t, traffic.Log{}, "{\"time\":1}\n"+long+"\n{\"time\":2}\n")
	if err != nil || len(list) != 2 || r.Bad != 1 {
		t.Errorf("%d calls, %d bad, error %v, want 2 and 1", len(list), r.Bad, err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add(`203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /orders?page=2 HTTP/1.0" 200 2326`)
	f.Add("time,user\n1,\"a\"\n")
	f.Add(`{"time":"1","user":{"id":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := traffic.Log{Within: time.Second}.Read(traffic.File{Name: "f", Reader: strings.NewReader(text)})
		if err != nil {
			t.Fatal(err)
		}
		list, _ := all(r)
		for i := 1; i < len(list); i++ {
			if list[i].At < list[i-1].At {
				t.Fatalf("a call of %d behind one of %d", list[i].At, list[i-1].At)
			}
		}
		if int64(len(list))+r.Bad+r.Left != r.Lines && err == nil {
			t.Fatalf("%d calls and %d bad lines of %d", len(list), r.Bad, r.Lines)
		}
	})
}

func made() traffic.Made {
	return traffic.Made{Rate: 100, Burst: 1, For: 10 * time.Minute, Shape: traffic.Steady, IDs: 10, Seed: 1, Start: time.Unix(0, 0)}
}

func makeCalls(t *testing.T, m traffic.Made) []call {
	t.Helper()
	s, err := traffic.Make(m)
	if err != nil {
		t.Fatal(err)
	}
	list, err := all(s)
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(list); i++ {
		if list[i].At < list[i-1].At {
			t.Fatalf("call %d is at %d, behind one at %d", i, list[i].At, list[i-1].At)
		}
	}
	return list
}

func TestSteady(t *testing.T) {
	list := makeCalls(t, made())
	if len(list) != 60_000 {
		t.Errorf("%d calls, want 60000", len(list))
	}
	for i, c := range list {
		if c.At != int64(i)*10_000 {
			t.Fatalf("call %d is at %d, want %d", i, c.At, i*10_000)
		}
	}
}

func TestBursts(t *testing.T) {
	m := made()
	m.Burst = 7
	list := makeCalls(t, m)
	if n := len(list); n < 59_990 || n > 60_010 {
		t.Errorf("%d calls, want the rate's 60000, but for a burst", n)
	}
	for i := 0; i+7 <= len(list); i += 7 {
		if list[i].At != list[i+6].At {
			t.Fatalf("calls %d to %d are at %d to %d, want them at once", i, i+6, list[i].At, list[i+6].At)
		}
	}
}

// TestPoisson holds the mean and the variance of the counts of seconds, which are equal.
func TestPoisson(t *testing.T) {
	m := made()
	m.Shape = traffic.Poisson
	counts := make([]float64, 600)
	list := makeCalls(t, m)
	for _, c := range list {
		counts[c.At/1e6]++
	}
	mean, variance := float64(len(list))/600, 0.0
	for _, n := range counts {
		variance += (n - mean) * (n - mean) / 600
	}
	if math.Abs(mean-100) > 3 || math.Abs(variance-100) > 25 {
		t.Errorf("mean %v and variance %v, want about 100 both", mean, variance)
	}
}

func TestOnOff(t *testing.T) {
	m := made()
	m.Shape, m.On, m.Off = traffic.OnOff, time.Second, 9*time.Second
	list := makeCalls(t, m)
	if n := len(list); n < 5_700 || n > 6_300 {
		t.Errorf("%d calls, want about 6000", n)
	}
	for _, c := range list {
		if c.At%10e6 >= 1e6 {
			t.Fatalf("a call at %d, while traffic is off", c.At)
		}
	}
}

// TestSeldom holds that traffic ends however late its next call would come.
func TestSeldom(t *testing.T) {
	for name, change := range map[string]func(*traffic.Made){
		"steady":         func(m *traffic.Made) { m.Rate = 1e-300 },
		"steady, denser": func(m *traffic.Made) { m.Rate, m.Burst = 5e-324, 1e6 },
		"poisson":        func(m *traffic.Made) { m.Rate, m.Shape = 1e-300, traffic.Poisson },
		"onoff":          func(m *traffic.Made) { m.Rate, m.Shape, m.On, m.Off = 1e-300, traffic.OnOff, time.Second, time.Second },
		"off for long": func(m *traffic.Made) {
			m.Rate, m.Shape, m.On, m.Off, m.For = 0.0001, traffic.OnOff, time.Microsecond, time.Hour, 100_000*time.Hour
		},
		"off for ever": func(m *traffic.Made) {
			m.Rate, m.Shape, m.On, m.Off, m.For = 0.001, traffic.OnOff, time.Microsecond, math.MaxInt64, math.MaxInt64
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := made()
			change(&m)
			list := makeCalls(t, m)
			if want := m.Burst; name == "steady" || name == "steady, denser" {
				if len(list) != want {
					t.Errorf("%d calls, want the first %d", len(list), want)
				}
			} else if len(list) > 0 {
				t.Errorf("%d calls, the first at %d, want none", len(list), list[0].At)
			}
		})
	}
}

func TestZipf(t *testing.T) {
	m := made()
	m.Zipf, m.IDs = 1, 100
	counts := map[string]float64{}
	for _, c := range makeCalls(t, m) {
		counts[c.User]++
		if c.Addr == "" {
			t.Fatal("a call without an address")
		}
	}
	if ratio := counts["u1"] / counts["u10"]; ratio < 8 || ratio > 12.5 {
		t.Errorf("the first id calls %v times as often as the tenth, want about 10", ratio)
	}
}

func TestSameSeed(t *testing.T) {
	m := made()
	m.Shape, m.Zipf = traffic.Poisson, 1.2
	if diff := cmp.Diff(makeCalls(t, m), makeCalls(t, m)); diff != "" {
		t.Errorf("two runs of one seed differ:\n%s", diff)
	}
	other := m
	other.Seed = 2
	if cmp.Equal(makeCalls(t, m), makeCalls(t, other)) {
		t.Error("two seeds make the same calls")
	}
}

func TestMadeRefused(t *testing.T) {
	for name, change := range map[string]func(*traffic.Made){
		"rate": func(m *traffic.Made) { m.Rate = math.NaN() }, "no rate": func(m *traffic.Made) { m.Rate = 0 },
		"burst": func(m *traffic.Made) { m.Burst = 0 }, "for": func(m *traffic.Made) { m.For = 0 }, "ids": func(m *traffic.Made) { m.IDs = 0 },
		"zipf": func(m *traffic.Made) { m.Zipf = -1 }, "on": func(m *traffic.Made) { m.Shape = traffic.OnOff },
		"on for less than a µs":  func(m *traffic.Made) { m.Shape, m.On, m.Off = traffic.OnOff, 999, time.Second },
		"off for less than a µs": func(m *traffic.Made) { m.Shape, m.On, m.Off = traffic.OnOff, time.Second, 999 },
		"for less than a µs":     func(m *traffic.Made) { m.For = 999 },
	} {
		m := made()
		change(&m)
		if _, err := traffic.Make(m); err == nil {
			t.Errorf("%s: Make(%+v) = nil, want an error", name, m)
		}
	}
}
