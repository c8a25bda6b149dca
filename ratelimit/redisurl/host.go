package redisurl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

var (
	errNoHost   = errors.New("is empty, want a name or an address: redis://host:port, and redis://user:password@host:port/db")
	errNoPort   = errors.New("has a port that is none, want a number from 1 to 65535 behind the colon, or no colon: host:6379")
	errBrackets = errors.New("has more than one colon, want an IPv6 address in brackets: redis://[::1]:6379")
	errSpace    = errors.New("has a space in it, want none: redis+cluster://host:port,host:port")
	errAddress  = errors.New("has something in brackets that is no IPv6 address, want one: redis://[::1]:6379")
)

// checkHosts looks at the hosts of a URL, with their ports. Its error says which of them is wrong by its number alone: what stands there may
// be a password with an @ or a / in it.
func checkHosts(hosts []string) error {
	for i, host := range hosts {
		err := checkHost(host)
		switch {
		case err != nil && len(hosts) == 1:
			return fmt.Errorf("the URL's host %w", err)
		case err != nil:
			return fmt.Errorf("the URL's host %d of %d %w", i+1, len(hosts), err)
		}
	}
	return nil
}

// checkHost looks at a host, with or without a port.
func checkHost(text string) error {
	host, port, ported := strings.Cut(text, ":")
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 || !isIPv6(text[1:end]) {
			return errAddress
		}
		host, port, ported = text[:end], text[end+1:], end+1 < len(text)
		if ported && !strings.HasPrefix(port, ":") {
			return errAddress
		}
		port = strings.TrimPrefix(port, ":")
	}
	switch {
	case strings.ContainsAny(text, " \t"):
		return errSpace
	case strings.Contains(port, ":"):
		return errBrackets
	case host == "":
		return errNoHost
	case ported && !isPort(port):
		return errNoPort
	}
	return nil
}

func isIPv6(text string) bool {
	text, err := url.PathUnescape(text) // a zone stands behind %25
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(text)
	return err == nil && addr.Is6()
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}
