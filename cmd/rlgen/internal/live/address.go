package live

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Environment is the variable that has the URL of Redis where nothing else does.
const Environment = "REDIS_URL"

// ErrArgument is an argument that a command cannot be called with.
var ErrArgument = errors.New("wrong argument")

// Address is the URL of a Redis, as package redisurl reads it. Nothing prints it.
type Address struct{ url string }

// Find returns the address of the Redis that is meant: the one of a URL or of a file, which flags name, and else that of the environment.
func Find(given, file string) (Address, error) {
	switch {
	case given != "" && file != "":
		return Address{}, fmt.Errorf("%w: found -redis and -redis-file, want one of them", ErrArgument)
	case given != "" && hasPassword(given):
		return Address{}, fmt.Errorf("%w: found a password behind -redis, where the list of processes and the history of the shell show it, "+
			"want the URL in %s or in a file that -redis-file names; change a password that others may have seen", ErrArgument, Environment)
	case given != "":
		return Address{given}, nil
	case file != "":
		return read(file)
	}
	if text := strings.TrimSpace(os.Getenv(Environment)); text != "" {
		return Address{text}, nil
	}
	return Address{}, fmt.Errorf("%w: found no Redis, want its URL in %s or in a file that -redis-file names: redis://user:password@host:port/db, rediss:// for TLS, "+
		"redis+sentinel://host,host/master, redis+cluster://host,host", ErrArgument, Environment)
}

// read returns the address in a file of one line.
func read(file string) (Address, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Address{}, fmt.Errorf("%w: -redis-file: %w", ErrArgument, err)
	}
	line := strings.TrimSpace(string(text))
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return Address{}, fmt.Errorf("%w: -redis-file: %s: found no line or several, want one with the URL of Redis", ErrArgument, file)
	}
	return Address{line}, nil
}

// hasPassword says whether a URL has one, or something that may be one.
func hasPassword(text string) bool {
	rest := behindScheme(text)
	return strings.Contains(rest[:strings.LastIndexByte(rest, '@')+1], ":") || strings.Contains(strings.ToLower(rest), "password")
}

func behindScheme(text string) string {
	if _, rest, ok := strings.Cut(text, "://"); ok {
		return rest
	}
	return text
}

// patient is the URL with the timeouts of somebody at a shell, where it does not have its own.
func (a Address) patient(seconds int) string {
	text := a.url
	for _, option := range []string{"dial_timeout", "read_timeout"} {
		if strings.Contains(text, option+"=") {
			continue
		}
		sep := "?"
		if strings.Contains(text, "?") {
			sep = "&"
		}
		text += sep + option + "=" + strconv.Itoa(seconds) + "s"
	}
	return text
}

// likely says what probably keeps the server from answering, which an error does not say by itself; "" where nothing is likely.
func (a Address) likely(err error) string {
	secure := strings.HasPrefix(a.url, "rediss")
	var network net.Error
	var header tls.RecordHeaderError
	switch {
	case secure && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() || errors.As(err, &header)):
		return "; a server without TLS leaves a client with TLS (rediss://) waiting: is it to be redis:// there, or another port?"
	case !secure && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return "; a server with TLS hangs up on a client without: is it to be rediss:// there, or another port?"
	}
	return ""
}

// unreadable is the error of a URL that package redisurl cannot read, which has nothing of it in its text.
type unreadable struct{ error }

func (e unreadable) Unwrap() error { return e.error }

// Tell returns the text of an error without the address's passwords. Where no password can be in it, it is left whole: the gaps in it would tell one that is a
// word of it.
func (a Address) Tell(err error) string {
	if errors.As(err, new(unreadable)) {
		return err.Error()
	}
	return a.Redact(err.Error())
}

// tiny is how many bytes a password has at most that words have in them.
const tiny = 3

// Redact returns a text without the address's passwords. One that words have in them is taken out where passwords stand in what programs write, and nowhere else: the
// gaps in words would tell it.
func (a Address) Redact(text string) string {
	for _, secret := range a.secrets() {
		if len(secret) > tiny {
			text = strings.ReplaceAll(text, secret, redacted)
		} else {
			text = redactTiny(text, secret)
		}
	}
	return text
}

const redacted = "[redacted]"

// redactTiny takes a password out where it stands behind a colon, an equals sign or a quote, and before an @, a quote or the end of an option, or of the text.
func redactTiny(text, secret string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, secret)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		all := b.String()
		if all != "" && strings.ContainsRune("\"'`:=", rune(all[len(all)-1])) && (after == "" || strings.ContainsRune("\"'`@&", rune(after[0]))) {
			b.WriteString(redacted)
		} else {
			b.WriteString(secret)
		}
		text = after
	}
}

// secrets are the passwords as they are written, as they are meant, and as programs write them, the longest first.
func (a Address) secrets() []string {
	if a.url == "" {
		return nil
	}
	rest := behindScheme(a.url)
	info := rest[:max(0, strings.LastIndexByte(rest, '@'))]
	_, password, _ := strings.Cut(info, ":")
	written := []string{password}
	if _, query, ok := strings.Cut(rest, "?"); ok {
		for _, option := range strings.Split(query, "&") {
			if name, value, _ := strings.Cut(option, "="); strings.Contains(strings.ToLower(name), "password") {
				written = append(written, value)
			}
		}
	}
	secrets := []string{a.url}
	for _, w := range written {
		secrets = append(secrets, w)
		for _, decode := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			if meant, err := decode(w); err == nil {
				quoted := strconv.Quote(meant)
				secrets = append(secrets, meant, url.QueryEscape(meant), url.PathEscape(meant), quoted[1:len(quoted)-1])
			}
		}
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(secrets)
}
