package rediscall

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// reaction is what becomes of an error of one sending.
type reaction uint8

const (
	giveUp reaction = iota // the call fails with the class of the error
	again                  // the command was not executed, and may be if it is sent again
	load                   // the server does not have the script: send its text
)

// meaning is what is known of an error.
type meaning struct {
	class    store.Class
	reaction reaction
	mend     string // what to do about it, for who runs the program
}

// asker is what is known of who asks: what an answer means may depend on it.
type asker uint8

const (
	anybody   asker = iota
	clustered       // a client of a Cluster, which follows where a slot has moved, as often as its options say
	single          // a client of one server
)

// askerOf returns what is known of a client.
func askerOf(client redis.UniversalClient) asker {
	if _, ok := client.(*redis.ClusterClient); ok {
		return clustered
	}
	return single
}

// replies says what the errors that Redis answers with mean, by their first words, and by who has asked.
var replies = []struct {
	prefix string
	by     asker
	meaning
}{
	{"NOSCRIPT", anybody, meaning{store.Unavailable, load, ""}},

	// Not executed, and likely to pass.
	{"LOADING", anybody, meaning{store.Unavailable, again, ""}},
	{"READONLY", anybody, meaning{store.Unavailable, again, ""}},
	{"CLUSTERDOWN", anybody, meaning{store.Unavailable, again, ""}},
	{"TRYAGAIN", anybody, meaning{store.Unavailable, again, ""}},
	{"MOVED", clustered, meaning{store.Unavailable, again, ""}},
	{"ASK", clustered, meaning{store.Unavailable, again, ""}},
	{"MASTERDOWN", anybody, meaning{store.Unavailable, again, ""}},
	{"NOREPLICAS", anybody, meaning{store.Unavailable, again, ""}},
	{"ERR max number of clients", anybody, meaning{store.Unavailable, again, ""}},

	// Not executed, and not soon.
	{"BUSY", anybody, meaning{store.Unavailable, giveUp, ""}},
	{"OOM", anybody, meaning{store.Unavailable, giveUp, ""}},
	{"MISCONF", anybody, meaning{store.Unavailable, giveUp, ""}},

	{"WRONGTYPE", anybody, meaning{store.Misconfigured, giveUp,
		"another program uses a key of the limiter: give one of them a prefix of its own, or delete the key"}},
	{"NOPERM", anybody, meaning{store.Misconfigured, giveUp, grant}},
	{"ERR The user executing the script can't", anybody, meaning{store.Misconfigured, giveUp, grant}},
	{"ERR ACL failure in script", anybody, meaning{store.Misconfigured, giveUp, grant}},
	{"NOAUTH", anybody, meaning{store.Misconfigured, giveUp, identify}},
	{"ERR Protocol error: unauthenticated", anybody, meaning{store.Misconfigured, giveUp, identify}},
	{"WRONGPASS", anybody, meaning{store.Misconfigured, giveUp, reidentify}},
	{"DENIED", anybody, meaning{store.Misconfigured, giveUp, "give the Redis server a password, or bind it to a network it trusts"}},
	{"CROSSSLOT", anybody, meaning{store.Misconfigured, giveUp, cluster}},
	{"MOVED", single, meaning{store.Misconfigured, giveUp, cluster}},
	{"ASK", single, meaning{store.Misconfigured, giveUp, cluster}},
	{"ERR This instance has cluster support disabled", anybody, meaning{store.Misconfigured, giveUp,
		"the server is no Redis Cluster: make the client with redis.NewClient"}},
	{"ERR DB index is out of range", anybody, meaning{store.Misconfigured, giveUp, database}},
	{"ERR invalid DB index", anybody, meaning{store.Misconfigured, giveUp, database}},
	{"ERR SELECT is not allowed in cluster mode", anybody, meaning{store.Misconfigured, giveUp,
		"the server is a Redis Cluster, which has database 0 alone: make the client with redis.NewClusterClient"}},
	{"ERR Client names cannot contain", anybody, meaning{store.Misconfigured, giveUp, "give the Redis client a name without spaces, or none"}},

	// Of what begins with ERR only what is known of Redis: proxies that cannot reach it answer so, too.
	{"ERR unknown command", anybody, meaning{store.Misconfigured, giveUp, upgrade}},
	{"ERR Unknown Redis command", anybody, meaning{store.Misconfigured, giveUp, upgrade}},
	{"ERR This Redis command", anybody, meaning{store.Misconfigured, giveUp, upgrade}},
	{"ERR Error compiling script", anybody, meaning{store.Misconfigured, giveUp, upgrade}},
	{"ERR Error running script", anybody, meaning{store.Misconfigured, giveUp, upgrade}},
	{"ERR user_script", anybody, meaning{store.Misconfigured, giveUp, upgrade}},
	{"user_script:", anybody, meaning{store.Misconfigured, giveUp, unread}},
	{"ERR value is not an integer", anybody, meaning{store.Misconfigured, giveUp, unread}},
	{"ERR wrong number of arguments", anybody, meaning{store.Misconfigured, giveUp, upgrade}},
}

const (
	upgrade  = "the server refused the script: Redis 6.2 or later with EVAL and EVALSHA is needed"
	grant    = "give the Redis user the permissions that the documentation of the package lists"
	cluster  = "the server is a Redis Cluster: make the client with redis.NewClusterClient"
	unread   = "the script failed, mostly of a key that holds what no limiter has written: delete that, or give one of the programs a prefix of its own"
	identify = "give the Redis client a user name and password"

	reidentify = "mend the Redis client's user name and password"

	database = "give the Redis client the number of a database that the server has: CONFIG GET databases says how many there are"
	foreign  = "what listens at the Redis client's address is not Redis: mend the address"
	certify  = "the Redis server ends the client's TLS: where it wants to know its clients (tls-auth-clients), give the client's TLSConfig a certificate that the server trusts, " +
		"or tell the server to want none; else mend what the error names"
	misnamed = "the Sentinels know no master of the name that the client asks for: mend its MasterName, which is what \"sentinel monitor\" calls the master"

	plaintext = "what listens at the Redis client's address does not speak TLS: leave out the client's TLSConfig, or write redis:// for rediss:// in its URL, " +
		"or give it the server's TLS port"
)

// inspect says what err means to who has asked. With sent, the command may have reached the server; without, err is of the first words on a new connection,
// or of what comes before them.
func inspect(err error, sent bool, by asker) meaning {
	if knowsNoMaster(err) {
		return meaning{store.Misconfigured, giveUp, misnamed}
	}
	if reply := redis.Error(nil); errors.As(err, &reply) {
		return inspectReply(reply.Error(), sent, by)
	}
	if isForeign(err, sent) {
		return meaning{store.Misconfigured, giveUp, foreign}
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return meaning{store.Unavailable, again, ""}
	}
	if cert := (*tls.CertificateVerificationError)(nil); errors.As(err, &cert) {
		return meaning{store.Misconfigured, giveUp, "mend the certificates of the Redis server or client"}
	}
	if record := (tls.RecordHeaderError{}); errors.As(err, &record) {
		return meaning{store.Misconfigured, giveUp, plaintext}
	}
	if endsTLS(err) {
		return meaning{store.Misconfigured, giveUp, certify}
	}
	// A failed dial is not tried again: the client itself has redialled, and a dead server answers no sooner.
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrClosed) {
		return meaning{store.Unavailable, giveUp, ""}
	}
	switch {
	case sent:
		return meaning{store.Indeterminate, giveUp, ""}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return meaning{store.Unavailable, giveUp, ""}
	}
	return meaning{store.Unavailable, again, ""} // a new connection broke before it carried the command
}

// knowsNoMaster says whether most of the Sentinels that a client has asked for its master have answered that they know none. One may have been added a moment ago.
func knowsNoMaster(err error) bool {
	if !strings.Contains(err.Error(), "all sentinels specified in configuration are unreachable") {
		return false
	}
	none, asked := 0, 0
	for _, answer := range leaves(err) {
		if asked++; errors.Is(answer, redis.Nil) {
			none++
		}
	}
	return 2*none > asked
}

// leaves are the errors that err has been made of.
func leaves(err error) []error {
	switch of := err.(type) {
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range of.Unwrap() {
			all = append(all, leaves(one)...)
		}
		return all
	case interface{ Unwrap() error }:
		if inner := of.Unwrap(); inner != nil {
			return leaves(inner)
		}
	}
	return []error{err}
}

// endsTLS says whether the other side has ended TLS with an alert that somebody must mend. Of the others, one that has a fault of its own for instance, a new connection may
// know better.
func endsTLS(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "remote error" && op.Err != nil &&
		!slices.Contains([]string{"tls: internal error", "tls: user canceled", "tls: close notify"}, op.Err.Error())
}

// isForeign says whether err is that of a client to which something else than Redis has answered, by what stands where the reply to HELLO is expected,
// which is the first on each connection and the only one that is a map. Other replies that cannot be read may be those of a Redis that
// something between them changes.
func isForeign(err error, sent bool) bool {
	text := err.Error()
	return strings.Contains(text, "redis: can't parse map reply: ") ||
		!sent && (strings.Contains(text, "redis: can't parse ") || strings.Contains(text, "redis: invalid reply: "))
}

// inspectReply says what an error that the server answered with means.
func inspectReply(text string, sent bool, by asker) meaning {
	text = unwrap(text)
	for i := range replies {
		r := &replies[i]
		if strings.HasPrefix(text, r.prefix) && (r.by == anybody || r.by == by) {
			return r.of(text)
		}
	}
	if !sent {
		return meaning{store.Unavailable, giveUp, ""}
	}
	// Nobody knows what stands between this client and the server.
	return meaning{store.Indeterminate, giveUp, ""}
}

var permission = regexp.MustCompile(`to run the '([^' ]+)' command`)

// of is the meaning for a text that says which permission is missing: then it is named.
func (m meaning) of(text string) meaning {
	if command := permission.FindStringSubmatch(text); m.mend == grant && command != nil {
		m.mend += ": +" + command[1]
	}
	return m
}

// unwrap is what a command in a script answered. Redis before 7 puts words before it, of which the last are
// "@user_script: 12: ", and sometimes a hyphen.
func unwrap(text string) string {
	if at := strings.Index(text, "WRONGTYPE "); at > 0 { // as miniredis has it
		return text[at:]
	}
	const place = "@user_script: "
	at := strings.LastIndex(text, place)
	if at < 0 {
		return text
	}
	_, inner, ok := strings.Cut(text[at+len(place):], ": ")
	if !ok {
		return text
	}
	inner = strings.TrimPrefix(inner, "-")
	if strings.HasPrefix(inner, "The user executing the script") {
		return "ERR " + inner
	}
	return inner
}
