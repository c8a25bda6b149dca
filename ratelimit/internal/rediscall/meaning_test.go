package rediscall

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// reply is an error that a server answered with.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

// alert is the error of a connection that the other side has ended with one of TLS's.
func alert(text string) error {
	return &net.OpError{Op: "remote error", Err: errors.New("tls: " + text)}
}

// sentinels is the error of a client whose Sentinels have answered so.
func sentinels(answers ...error) error {
	return fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", errors.Join(answers...))
}

var refusedDial = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

func TestInspect(t *testing.T) {
	for _, test := range []struct {
		err      error
		sent     bool
		class    store.Class
		reaction reaction
	}{
		{reply("NOSCRIPT No matching script. Please use EVAL."), true, store.Unavailable, load},
		{reply("LOADING Redis is loading the dataset in memory"), true, store.Unavailable, again},
		{reply("READONLY You can't write against a read only replica. script: 1, on @user_script:1."), true, store.Unavailable, again},
		{reply("CLUSTERDOWN Hash slot not served"), true, store.Unavailable, again},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), true, store.Unavailable, again},
		{reply("MASTERDOWN Link with MASTER is down"), true, store.Unavailable, again},
		{reply("NOREPLICAS Not enough good replicas to write."), true, store.Unavailable, again},
		{reply("ERR max number of clients reached"), true, store.Unavailable, again},
		{reply("BUSY Redis is busy running a script."), true, store.Unavailable, giveUp},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), true, store.Unavailable, giveUp},
		{reply("MISCONF Redis is configured to save RDB snapshots"), true, store.Unavailable, giveUp},
		{reply("WRONGTYPE Operation against a key"), true, store.Misconfigured, giveUp},
		{reply("user_script:88: attempt to perform arithmetic on a nil value"), true, store.Misconfigured, giveUp},
		{reply("ERR value is not an integer or out of range"), true, store.Misconfigured, giveUp},
		{reply("NOPERM this user has no permissions"), true, store.Misconfigured, giveUp},
		{reply("NOAUTH Authentication required."), true, store.Misconfigured, giveUp},
		{reply("WRONGPASS invalid username-password pair"), true, store.Misconfigured, giveUp},
		{reply("CROSSSLOT Keys in request don't hash to the same slot"), true, store.Misconfigured, giveUp},
		{reply("MOVED 1 127.0.0.1:1"), true, store.Misconfigured, giveUp},
		{reply("ASK 1 127.0.0.1:1"), true, store.Misconfigured, giveUp},
		{reply("ERR unknown command 'evalsha'"), true, store.Misconfigured, giveUp},
		{reply("ERR user_script:1: attempt to index a nil value"), true, store.Misconfigured, giveUp},
		{reply("ERR DB index is out of range"), false, store.Misconfigured, giveUp},
		{reply("ERR invalid DB index"), false, store.Misconfigured, giveUp},
		{reply("ERR SELECT is not allowed in cluster mode"), false, store.Misconfigured, giveUp},
		{reply("ERR Client names cannot contain spaces, newlines or special characters."), false, store.Misconfigured, giveUp},
		{reply("upstream failure"), false, store.Unavailable, giveUp},
		{reply("upstream failure"), true, store.Indeterminate, giveUp},
		{reply("ERR Connection refused"), true, store.Indeterminate, giveUp},                                                                       // a proxy's
		{reply("ERR Error compiling script (new function): <string> line:1 WRONGTYPE Operation against a key"), true, store.Misconfigured, giveUp}, // miniredis

		// Redis 6.2
		{reply("ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica."), true, store.Unavailable, again},
		{reply("ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed"), true, store.Unavailable, giveUp},
		{reply("ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation against a key"), true, store.Misconfigured, giveUp},
		{reply("@user_script: 1: -OOM command not allowed when used memory > 'maxmemory'."), true, store.Unavailable, giveUp},

		{errors.New(`redis: can't parse map reply: "HTTP/1.1 400 Bad Request"`), false, store.Misconfigured, giveUp},
		{errors.New(`redis: can't parse map reply: "ERROR"`), true, store.Misconfigured, giveUp},
		{errors.New(`redis: invalid reply: "J\x00\x00\x00\n"`), false, store.Misconfigured, giveUp},
		{errors.New(`redis: invalid reply: "J\x00\x00\x00\n"`), true, store.Indeterminate, giveUp},
		{errors.New(`redis: can't parse array/set/push reply: "x"`), true, store.Indeterminate, giveUp},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, false, store.Misconfigured, giveUp},
		{alert("certificate required"), false, store.Misconfigured, giveUp},
		{alert("handshake failure"), true, store.Misconfigured, giveUp},
		{alert("internal error"), false, store.Unavailable, again},
		{sentinels(redis.Nil, redis.Nil, redis.Nil), false, store.Misconfigured, giveUp},
		{sentinels(redis.Nil, redis.Nil, refusedDial), false, store.Misconfigured, giveUp},
		{sentinels(redis.Nil, refusedDial, refusedDial), false, store.Unavailable, giveUp},
		{sentinels(refusedDial, refusedDial, refusedDial), false, store.Unavailable, giveUp},
		{sentinels(redis.Nil, refusedDial), false, store.Unavailable, giveUp},
		{redis.ErrPoolTimeout, false, store.Unavailable, again},
		{redis.ErrClosed, false, store.Unavailable, giveUp},
		{fmt.Errorf("wrapped: %w", &net.OpError{Op: "dial", Err: errors.New("connection refused")}), true, store.Unavailable, giveUp},
		{&net.OpError{Op: "dial", Err: &net.DNSError{}}, false, store.Unavailable, giveUp},
		{context.DeadlineExceeded, false, store.Unavailable, giveUp},
		{context.DeadlineExceeded, true, store.Indeterminate, giveUp},
		{os.ErrDeadlineExceeded, true, store.Indeterminate, giveUp},
		{io.EOF, false, store.Unavailable, again},
		{io.EOF, true, store.Indeterminate, giveUp},
		{&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, true, store.Indeterminate, giveUp},
	} {
		got := inspect(test.err, test.sent, single)
		if got.class != test.class || got.reaction != test.reaction {
			t.Errorf("inspect(%q, sent %v) = %v, reaction %d, want %v, reaction %d",
				test.err, test.sent, got.class, got.reaction, test.class, test.reaction)
		}
		if got.class == store.Misconfigured && got.mend == "" {
			t.Errorf("inspect(%q): no word on how to mend it", test.err)
		}
		if failed := Fail("here", got.class, test.err, got.mend); !errors.Is(failed, test.err) {
			t.Errorf("Fail(%q) = %v, which is not that error", test.err, failed)
		}
	}
}

// TestMissingPermissions classifies the replies of servers to a user who lacks a permission. The replies
// are recorded from Redis 6.2.16, 7.0.15 and 7.4.1 and Valkey 8.0.1. Redis 7.2 and 8 share the text of 7.4.
func TestMissingPermissions(t *testing.T) {
	const sha = "3ad3a3a7b7a8c1d06cd0c2ba4e8ef3e8a4e9e6b5"
	for _, test := range []struct {
		server, reply, mend string
	}{
		{"Redis 6.2, command of a script", "ERR Error running script (call to f_" + sha + "): @user_script:12: " +
			"@user_script: 12: The user executing the script can't run this command or subcommand", grant},
		{"Redis 6.2, key of a script", "ERR Error running script (call to f_" + sha + "): @user_script:12: " +
			"@user_script: 12: The user executing the script can't access at least one of the keys mentioned in the " +
			"command arguments", grant},
		{"Redis 7.0, command of a script", "ERR The user executing the script can't run this command or subcommand " +
			"script: " + sha + ", on @user_script:12.", grant},
		{"Redis 7.0, key of a script", "ERR The user executing the script can't access at least one of the keys " +
			"mentioned in the command arguments script: " + sha + ", on @user_script:12.", grant},
		{"Redis 7.2, 7.4 and 8, Valkey 8, command of a script", "ERR ACL failure in script: User lim has no permissions " +
			"to run the 'zadd' command script: " + sha + ", on @user_script:12.", grant + ": +zadd"},
		{"Redis 7.2, 7.4 and 8, Valkey 8, subcommand of a script", "ERR ACL failure in script: User lim has no " +
			"permissions to run the 'config|get' command", grant + ": +config|get"},
		{"Redis 7.2, 7.4 and 8, Valkey 8, key of a script", "ERR ACL failure in script: User lim has no permissions " +
			"to access the 'rl:user=alice' key", grant},
		{"Redis 7.0 to 8, Valkey 8, the call itself", "NOPERM User lim has no permissions to run the 'evalsha' command",
			grant + ": +evalsha"},
		{"Redis 6.2, the call itself", "NOPERM this user has no permissions to run the 'evalsha' command or its subcommand",
			grant + ": +evalsha"},
		{"Redis 7.0 to 8, Valkey 8, key of the call", "NOPERM No permissions to access a key", grant},
		{"Redis 6.2, key of the call", "NOPERM this user has no permissions to access one of the keys used as arguments", grant},
	} {
		t.Run(test.server, func(t *testing.T) {
			got := inspect(reply(test.reply), true, single)
			if got.class != store.Misconfigured || got.reaction != giveUp || got.mend != test.mend {
				t.Errorf("inspect(%q) = %v, %q, want misconfigured, %q", test.reply, got.class, got.mend, test.mend)
			}
			if text := discreet(reply(test.reply)).Error(); strings.Contains(text, "alice") {
				t.Errorf("the error %q has the caller's id", text)
			}
		})
	}
}

// TestInspectOfACluster holds that where a Cluster's client has followed slots as far as its options say, the call was not executed and may be again.
func TestInspectOfACluster(t *testing.T) {
	for _, text := range []reply{"MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1"} {
		if got, want := inspect(text, true, clustered), (meaning{store.Unavailable, again, ""}); got != want {
			t.Errorf("inspect(%q) of a Cluster's client = %+v, want %+v", text, got, want)
		}
		if err := Fail("here", store.Unavailable, text, ""); tells(err) {
			t.Errorf("%v is taken to say how the server is, which it says of one slot", err)
		}
	}
}

// TestGrantNamesTheCommand holds that who lacks a permission is told which.
func TestGrantNamesTheCommand(t *testing.T) {
	for text, want := range map[string]string{
		"NOPERM User limiter has no permissions to run the 'select' command":                 ": +select",
		"NOPERM User limiter has no permissions to run the 'client|setname' command":         ": +client|setname",
		"NOPERM this user has no permissions to run the 'select' command or its subcommand":  ": +select",
		"NOPERM this user has no permissions to access one of the keys used as arguments":    "",
		"NOPERM No permissions to access a key":                                              "",
		"ERR The user executing the script can't run this command or subcommand script: 9f0": "",
	} {
		if got := inspectReply(text, true, single).mend; got != grant+want {
			t.Errorf("inspectReply(%q) says %q, want %q", text, got, grant+want)
		}
	}
}
