package redisurl

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// kind is what a URL leads to.
type kind uint8

const (
	server kind = iota
	sentinel
	cluster
)

// target is a URL, as go-redis reads it.
type target struct {
	kind kind
	url  *url.URL
}

var (
	errScheme  = errors.New("the URL has another scheme, want redis, rediss, unix, redis+sentinel or redis+cluster: redis://user:password@host:port/db")
	errSyntax  = errors.New("the URL cannot be read: write what is neither letter nor digit in user and password as %XX")
	errSeveral = errors.New("the URL has several hosts, want redis+sentinel:// or redis+cluster:// before them")
	errMaster  = errors.New("the URL of sentinels names no master, want redis+sentinel://host:port,host:port/master")
	errPath    = errors.New("the URL's path is no database, want a number behind the host: redis://host:port/2")
	errCluster = errors.New("the URL of a cluster names a database, want none: a cluster has number 0 alone")
	errSocket  = errors.New("the URL names no socket, want unix:///path/to/socket")
)

// schemes are those of URLs, without TLS.
var schemes = map[string]kind{"redis": server, "unix": server, "redis+sentinel": sentinel, "redis+cluster": cluster}

// parse reads a URL and writes it as go-redis wants it.
func parse(text string) (*target, error) {
	if text == "" {
		return nil, errors.New(`the URL is empty, want one such as "redis://localhost:6379"`)
	}
	scheme, rest, _ := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	plain, secure := strings.CutPrefix(scheme, "rediss")
	if secure {
		plain = "redis" + plain
	}
	of, ok := schemes[plain]
	if !ok {
		return nil, errScheme
	}
	goRedis := "redis"
	switch {
	case plain == "unix":
		goRedis = "unix"
	case secure:
		goRedis = "rediss"
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	at := strings.LastIndexByte(authority, '@') + 1
	hosts := strings.Split(authority[at:], ",")
	u, err := url.Parse(goRedis + "://" + authority[:at] + hosts[0] + tail)
	if err != nil {
		return nil, misread(plain, authority[:at], hosts, tail)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return nil, errSyntax
	}
	t := &target{of, u}
	if of == server {
		t.kind = kindOf(query)
	}
	if t.kind == server && len(hosts) > 1 {
		return nil, errSeveral
	}
	if err := checkAll(plain, hosts, query["addr"]); err != nil {
		return nil, err
	}
	for _, host := range hosts[1:] {
		query.Add("addr", withPort(host))
	}
	switch {
	case of == sentinel:
		err = t.watched(query)
	case t.kind == sentinel && query.Get("master_name") == "":
		err = errMaster
	}
	u.RawQuery = query.Encode()
	return t, errors.Join(err, t.path())
}

// misread says what keeps a URL from being read: its hosts, where all that stands around them can be.
func misread(scheme, user string, hosts []string, tail string) error {
	if _, err := url.Parse("redis://" + user + "host" + tail); err != nil || strings.Contains(tail, "@") || scheme == "unix" {
		return errSyntax
	}
	return cmp.Or(checkHosts(hosts), errSyntax)
}

// checkAll looks at the hosts of a URL, and at those in its options.
func checkAll(scheme string, hosts, options []string) error {
	if scheme == "unix" {
		return nil
	}
	if err := checkHosts(hosts); err != nil {
		return err
	}
	for _, host := range options {
		if err := checkHost(host); err != nil {
			return fmt.Errorf("the URL's option addr %w", err)
		}
	}
	return nil
}

// kindOf is what go-redis's own forms of a URL mean.
func kindOf(query url.Values) kind {
	switch {
	case query.Has("master_name"):
		return sentinel
	case query.Has("addr"):
		return cluster
	}
	return server
}

// withPort is host with the port of Redis, if it has none.
func withPort(host string) string {
	if strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		return host
	}
	return host + ":6379"
}

// watched writes the URL of sentinels as go-redis has it: the user is the sentinels', and what is in the path and the user
// of the master stand in the query.
func (t *target) watched(query url.Values) error {
	master, db, _ := strings.Cut(strings.Trim(t.url.Path, "/"), "/")
	if master == "" {
		return errMaster
	}
	query.Set("master_name", master)
	t.url.Path = "/" + db
	if user := t.url.User; user != nil {
		password, _ := user.Password()
		query.Set("username", user.Username())
		query.Set("password", password)
	}
	t.url.User = nil
	if query.Has("sentinel_username") || query.Has("sentinel_password") {
		t.url.User = url.UserPassword(query.Get("sentinel_username"), query.Get("sentinel_password"))
	}
	query.Del("sentinel_username")
	query.Del("sentinel_password")
	return nil
}

// path looks at what stands behind the host.
func (t *target) path() error {
	path := strings.Trim(t.url.Path, "/")
	number, err := strconv.Atoi(path)
	switch {
	case t.url.Scheme == "unix" && (path == "" || t.url.Host != ""):
		return errSocket
	case t.url.Scheme == "unix", path == "":
		return nil
	case err != nil || number < 0:
		return errPath
	case t.kind == cluster && number != 0:
		return errCluster
	}
	return nil
}

// explain says what go-redis refuses in the URL, which go-redis itself says with parts of the URL that may be secret. It names
// an option only where go-redis knows it.
func (t *target) explain() error {
	query := t.url.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if t.readsWith(url.Values{name: query[name]}) {
			continue
		}
		if t.readsWith(url.Values{name: {""}}) || name == "addr" {
			return fmt.Errorf("the URL's option %s has a value that go-redis cannot read: see redis.ParseURL", name)
		}
		return errors.New("the URL has an option that go-redis does not know: see redis.ParseURL, ParseFailoverURL and ParseClusterURL")
	}
	return errSyntax
}

// readsWith says whether go-redis reads the URL with these options alone.
func (t *target) readsWith(query url.Values) bool {
	u := *t.url
	u.RawQuery = query.Encode()
	var err error
	switch t.kind {
	case sentinel:
		_, err = redis.ParseFailoverURL(u.String())
	case cluster:
		_, err = redis.ParseClusterURL(u.String())
	default:
		_, err = redis.ParseURL(u.String())
	}
	return err == nil
}
