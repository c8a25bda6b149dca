// Package redisurl makes the client of a limiter from a URL, such as the one in REDIS_URL.
//
//	redis://user:password@host:port/db                       a server; rediss:// with TLS
//	unix://user:password@/path/to/socket?db=2                the same by a Unix socket
//	redis+sentinel://user:password@host:port,host:port/master/db?sentinel_username=…&sentinel_password=…
//	redis+cluster://user:password@host:port,host:port
//
// Each has a form with TLS, which begins with rediss. The forms of go-redis's own ParseFailoverURL and ParseClusterURL
// are read, too: redis:// with master_name, whose user and password are those of the sentinels, and redis:// with addr. Every
// form takes the options that go-redis takes, such as read_timeout=300ms and pool_size=20.
//
// What a URL does not say is set as suits a limiter, whose calls end within a budget and then do without Redis: a dial
// is tried once and lasts a second at most, and a reply is waited for 200 ms. Who gives calls a longer budget than that, with redisstore.WithBudget,
// says read_timeout= as well: calls end with it. Other uses of the same Redis want a client of their own.
//
// A URL names its hosts: one without, which is mostly one that was put together from variables that are not set, is refused, where go-redis
// takes localhost. IPv6 addresses stand in brackets.
//
// No error holds any part of the URL but the name of an option, for it may hold a password.
package redisurl
