package traffic

import (
	"bytes"
	"fmt"
	"time"
)

// commonParser reads lines of the Common Log Format,
//
//	203.0.113.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /orders HTTP/1.1" 200 2326
//
// and of those that say more behind it. The method is the request's, without the version and the query.
func commonParser() parser {
	clock := clock{read: parseStamp}
	return func(line []byte, r *record) error {
		addr, rest, ok := bytes.Cut(line, []byte(" "))
		_, rest, ok2 := bytes.Cut(rest, []byte(" "))
		open := bytes.Index(rest, []byte(" ["))
		if !ok || !ok2 || open < 0 {
			return fmt.Errorf("%s is no line of an access log, want address, identity, user and [time]", excerpt(line))
		}
		user, rest := rest[:open], rest[open+2:]
		stamp, rest, ok := bytes.Cut(rest, []byte("]"))
		if !ok {
			return fmt.Errorf("%s has no end of its time, want ]", excerpt(line))
		}
		at, err := clock.parse(stamp)
		if err != nil {
			return err
		}
		r.at, r.addr, r.user = at, absent(addr), absent(user)
		r.method, r.status = request(rest)
		return nil
	}
}

// absent is a field, empty where the log writes that there is none.
func absent(field []byte) []byte {
	if len(field) == 1 && field[0] == '-' {
		return nil
	}
	return field
}

// request returns verb and path of a request line in quotes, GET /orders, as they are written there, and the status behind it, 0 if there is none.
func request(rest []byte) (line []byte, status int) {
	_, rest, _ = bytes.Cut(rest, []byte(`"`))
	line, rest = cutQuote(rest)
	if at := bytes.LastIndexByte(line, ' '); at > 0 && bytes.HasPrefix(line[at:], []byte(" HTTP/")) {
		line = line[:at]
	}
	line, _, _ = bytes.Cut(line, []byte("?"))
	if len(rest) >= 4 && rest[0] == ' ' {
		for _, digit := range rest[1:4] {
			if digit < '0' || digit > '9' {
				return line, 0
			}
			status = status*10 + int(digit-'0')
		}
	}
	return line, status
}

// cutQuote returns what is before the quote that ends a text, and what is behind it. One behind an odd number of backslashes ends it only if no other does: not
// every server writes \" for those within.
func cutQuote(text []byte) (before, after []byte) {
	before, after, more := bytes.Cut(text, []byte(`"`))
	if !more || !bytes.HasSuffix(before, []byte(`\`)) {
		return before, after
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return text[:i], text[i+1:]
		}
	}
	return before, after
}

// parseStamp reads the time of a line.
func parseStamp(stamp string) (int64, error) {
	t, err := time.Parse("02/Jan/2006:15:04:05 -0700", stamp)
	if err != nil {
		return 0, fmt.Errorf("time %q, want one such as 10/Oct/2000:13:55:36 -0700", stamp)
	}
	return t.UnixMicro(), nil
}

// cut is the beginning of a text of no more than n bytes.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return fmt.Sprintf("%.*s…", n, text)
}

// excerpt is the beginning of a line, quoted.
func excerpt(line []byte) string {
	const most = 60
	if len(line) > most {
		return fmt.Sprintf("%q…", line[:most])
	}
	return fmt.Sprintf("%q", line)
}
