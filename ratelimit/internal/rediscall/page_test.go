package rediscall

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/internal/page"
	"github.com/rlgen/rlgen/ratelimit/store"
)

const operations = "../../OPERATIONS.md"

var reactions = map[reaction]string{giveUp: "no", again: "yes, within the budget", load: "yes, with its text"}

var askers = map[asker]string{
	single: ", to a client of one server", clustered: ", to a Cluster's client that has followed as far as its MaxRedirects says",
}

// patience is what to do about answers that pass by themselves, where they do not.
var patience = map[string]string{
	"NOSCRIPT":                  "nothing",
	"LOADING":                   "wait: the server has been started and reads its data",
	"READONLY":                  "the server has become a replica: give the client Sentinel's or the Cluster's addresses, which know the master",
	"CLUSTERDOWN":               "see with CLUSTER INFO which slots nobody serves",
	"TRYAGAIN":                  "wait: a slot moves",
	"MASTERDOWN":                "the server is a replica without its master: as READONLY",
	"NOREPLICAS":                "bring replicas back, or lower min-replicas-to-write",
	"ERR max number of clients": "raise maxclients, or lower the clients' pool_size",
	"BUSY":                      "another program's script does not end: SCRIPT KILL, or on Redis's own advice SHUTDOWN NOSAVE",
	"OOM":                       "maxmemory is reached: raise it, or give the limiter a server of its own",
	"MISCONF":                   "the server cannot save to its disk: see its log",
	"MOVED":                     "wait: a slot moves, and the masters do not agree on where it is",
	"ASK":                       "wait: a slot moves",
}

// TestOperationsReplies holds the table of what Redis answers to the one in the code.
func TestOperationsReplies(t *testing.T) {
	var rows [][]string
	for _, r := range replies {
		mend := cmp.Or(r.mend, patience[r.prefix])
		if mend == "" {
			t.Errorf("nothing says what to do about %s", r.prefix)
		}
		rows = append(rows, []string{"`" + r.prefix + "`" + askers[r.by], r.class.String(), reactions[r.reaction], mend})
	}
	unknown := inspectReply("anything else", true, single)
	early := inspectReply("anything else", false, single)
	rows = append(rows, []string{"anything else while a connection begins, before the script is sent", early.class.String(), reactions[early.reaction], "see what the error says"})
	rows = append(rows, []string{"anything else", unknown.class.String(), reactions[unknown.reaction], "see what stands between the program and Redis"})
	page.Hold(t, operations, "replies", page.Table([]string{"Redis answers", "class", "sent again", "what to do"}, rows))
}

// TestOperationsBreaks holds the table of what breaks on the way to what [inspect] says.
func TestOperationsBreaks(t *testing.T) {
	var rows [][]string
	for _, b := range []struct {
		what string
		err  error
		sent bool
		mend string
	}{
		{"the client cannot connect: refused, no such host, no route", &net.OpError{Op: "dial", Err: errors.New("refused")}, false, "start Redis, or mend its address"},
		{"the client has no connection free", redis.ErrPoolTimeout, false, "raise pool_size"},
		{"the client is closed", redis.ErrClosed, false, "close it after the last call"},
		{"the server's certificate is not trusted", &tls.CertificateVerificationError{Err: errors.New("unknown authority")}, false, ""},
		{"the server ends TLS, for it wants a certificate of the client for instance", alert("certificate required"), false, ""},
		{"the Sentinels know no master of that name", sentinels(redis.Nil), false, ""},
		{"the server does not speak TLS, and the client does", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, false, ""},
		{"what answers is not Redis: HTTP, SSH, memcached", errors.New("redis: can't parse map reply: \"HTTP/1.1 400 Bad Request\""), true, ""},
		{"a connection breaks before the script is written", io.EOF, false, "nothing, unless it goes on"},
		{"a connection breaks, or times out, after the script is written", os.ErrDeadlineExceeded, true, "where Redis is slow: SLOWLOG, or a nearer server, or a longer budget"},
	} {
		m := inspect(b.err, b.sent, single)
		rows = append(rows, []string{b.what, m.class.String(), reactions[m.reaction], cmp.Or(m.mend, b.mend)})
	}
	rows = append(rows, []string{
		fmt.Sprintf("%d calls in a row have failed: `%s…`", trip, strings.SplitN(ErrResting.Error(), ",", 2)[0]),
		store.Unavailable.String(), fmt.Sprintf("by one call every %v", rest), "see what the calls before have failed of"})
	page.Hold(t, operations, "breaks", page.Table([]string{"on the way", "class", "sent again", "what to do"}, rows))
}
