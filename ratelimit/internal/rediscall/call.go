// Package rediscall runs Lua scripts in Redis: each at most once unless its caller says that twice is as good, and
// tells from an error what became of it.
package rediscall

import (
	"context"
	"crypto/sha1" // names a script in Redis's cache; secures nothing
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// Script is the first words of the commands that run a Lua script: the one by the name under which Redis caches it,
// the other with its text.
type Script struct{ Evalsha, Eval [2]any }

// NewScript is the script of a text.
func NewScript(text string) Script {
	sum := sha1.Sum([]byte(text))
	return Script{
		Evalsha: [2]any{"evalsha", hex.EncodeToString(sum[:])},
		Eval:    [2]any{"eval", text},
	}
}

const (
	firstWait = 2 * time.Millisecond   // before the second sending of a call that the server did not execute; doubled before each further one
	mostWait  = 100 * time.Millisecond // between two of them
	insist    = 500 * time.Millisecond // for which a call is sent again that may not be repeated, if its context lasts so long: who has refused it for longer will for a while
)

// Call is one run of a script that returns integers, or of a command that returns one. It is run
// once.
type Call struct {
	Package string // whose errors its errors are
	Client  redis.UniversalClient
	Script  Script // the zero Script is none: Words are a command's then
	// Words are those of the command: two places that are Run's, the number of keys, the keys, the arguments.
	Words []any
	// Nonce is a number that the script returns before its reply: [NewNonce]. A reply without it
	// belongs to another call, as after an error of a proxy or of the client. 0 is for commands,
	// which return no nonce: theirs is one integer.
	Nonce uint64
	// MayRepeat says that executing the script twice does what executing it once does.
	MayRepeat bool
	// Cargo, where it is set, knows the words only when the client writes them. Words are then those by which the client
	// finds the server, and the call is not to be abandoned.
	Cargo Cargo
	// Server, where it is set, is the one that the call asks: what it has said to other calls explains how this one ends.
	Server *Server

	sent     sending
	repeated atomic.Bool
	told     bool // the server, by its text, what the script is
	blank    bool // the client wrote nothing of the call in its place
	one      [1]int64
	first    *outcome // of the first sending, where that was not Run's
}

// Cargo is what a call carries for several who may still take back what is theirs. Its methods are called one after the
// other.
type Cargo interface {
	// Load returns the words of the command, as [Call.Words] are, when the client is about to write them: the server may
	// have them from now on. It may be called again for one sending, and then returns the same words. Without words there is
	// nothing left to send.
	Load() []any
	// Unload says that the server surely has not executed what was loaded. Load may follow.
	Unload()
}

// Sent says whether the server may have the command, or may have executed it.
func (c *Call) Sent() bool { return c.sent.begun() }

// Abandon ends a call that nobody waits for any more, and reports whether the server surely gets nothing of it. Where it was
// too late for that, the call goes on.
func (c *Call) Abandon() bool { return c.sent.abandon() }

// Repeated says whether the script was sent again after a sending that the server may have executed.
func (c *Call) Repeated() bool { return c.repeated.Load() }

// command is an EVALSHA or EVAL that the client must not send twice on its own: the server may have executed it. Run does, where it may.
type command struct {
	redis.Cmder
	call *Call
}

func (command) NoRetry() bool { return true }

// Args marks the call as sent: the client asks for the arguments of a command when it writes them.
func (c command) Args() []any {
	if c.call.blank = !c.call.sent.begin(); c.call.blank {
		return nothing
	}
	if c.call.Cargo != nil {
		return c.call.load()
	}
	return c.Cmder.Args()
}

func (c *Call) load() []any {
	words := c.Cargo.Load()
	if c.blank = len(words) == 0; c.blank {
		return nothing
	}
	copy(words, c.how())
	return words
}

// Run sends the script until it is executed, or may have been. Its error is a [store.Error], even where the client
// panics. It returns once the client does: the wait for a reply ends by the client's own timeouts, not with ctx.
func (c *Call) Run(ctx context.Context) (reply []int64, err error) {
	if c.first != nil && c.first.panicked {
		return nil, c.first.err
	}
	defer func() {
		if p := recover(); p != nil {
			reply, err = nil, c.panicked(p)
		}
	}()
	return c.send(ctx)
}

// panicked is the error of a call whose client has panicked with p.
func (c *Call) panicked(p any) error {
	return Fail(c.Package, store.Misconfigured, fmt.Errorf("the client panicked: %v\n%s", p, debug.Stack()), "mend the Redis client, or its hooks")
}

func (c *Call) send(ctx context.Context) ([]int64, error) {
	c.told = false
	begun := time.Now()
	if c.first != nil {
		begun = c.first.begun
	}
	sent := begun
	for wait := firstWait; ; sent = time.Now() {
		reply, err := c.attempt(ctx)
		if err == nil {
			c.Server.spoken().decided()
			return reply, nil
		}
		m := inspect(err, c.sent.begun(), askerOf(c.Client))
		c.refresh(ctx, m)
		if m.reaction == load && !c.told && c.Script.Eval[0] != nil {
			c.told = true
			continue
		}
		pause := wait/2 + rand.N(wait)
		if !c.mayGoAgain(m, err) || c.heard(m) && time.Now().Add(pause+time.Since(sent)).After(c.end(ctx, begun)) {
			return nil, c.fail(m, err)
		}
		if m.class == store.Indeterminate {
			c.repeated.Store(true)
		}
		c.renew()
		if !sleep(ctx, pause) {
			return nil, c.fail(m, err)
		}
		wait = min(2*wait, mostWait)
	}
}

// attempt sends the command once, or returns what became of it where that has been done.
func (c *Call) attempt(ctx context.Context) ([]int64, error) {
	if first := c.first; first != nil {
		c.first = nil
		return first.reply, first.err
	}
	c.prepare()
	return c.process(ctx)
}

// prepare makes the command ready to be sent.
func (c *Call) prepare() {
	c.renew()
	if how := c.how(); how[0] != nil {
		copy(c.Words, how)
	}
}

// how are the first words of the command.
func (c *Call) how() []any {
	if c.told {
		return c.Script.Eval[:]
	}
	return c.Script.Evalsha[:]
}

// heard says whether what the server has said is the whole of what there is to say, where there is no time for more: not of a call that it may have executed.
func (c *Call) heard(m meaning) bool {
	return !c.MayRepeat || m.class != store.Indeterminate && !c.repeated.Load()
}

// end is when a further sending is to be answered, at the latest, of a call that has begun: where it may be repeated, as its context has it.
func (c *Call) end(ctx context.Context, begun time.Time) time.Time {
	end := begun.Add(insist)
	if c.MayRepeat {
		end = end.AddDate(1, 0, 0)
	}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		return deadline
	}
	return end
}

// renew makes ready for a further sending of a call that the server has not executed, or may execute again.
func (c *Call) renew() {
	if c.Cargo != nil && c.sent.begun() {
		c.Cargo.Unload()
	}
	c.sent.renew()
}

// process sends the command once.
func (c *Call) process(ctx context.Context) ([]int64, error) {
	if c.Nonce != 0 {
		cmd := redis.NewIntSliceCmd(ctx, c.Words...)
		err := c.Client.Process(ctx, command{cmd, c})
		return c.own(cmd.Val(), err)
	}
	cmd := redis.NewIntCmd(ctx, c.Words...)
	err := c.Client.Process(ctx, command{cmd, c})
	c.one[0] = cmd.Val()
	return c.one[:], err
}

// NewNonce returns a random number of 14 digits, which Lua represents exactly.
func NewNonce() uint64 { return 1e13 + rand.Uint64N(9e13) }

// errForeignReply is the error of a call that read the reply of another one.
var errForeignReply = errors.New("the reply belongs to another call")

// own returns a reply without its nonce, or an error if the reply has another one. The connection
// that carried it is closed then, with all that are idle and out of step. The reply is nil if a
// hook of the client dropped the command.
func (c *Call) own(reply []int64, err error) ([]int64, error) {
	if err != nil || c.blank || reply == nil {
		return nil, err
	}
	if len(reply) == 0 || uint64(reply[0]) != c.Nonce {
		c.Server.closeForeign(c.Client)
		return nil, errForeignReply
	}
	return reply[1:], nil
}

// mayGoAgain says whether a call may be sent again after an error. A client that is closed stays so.
func (c *Call) mayGoAgain(m meaning, err error) bool {
	return m.reaction == again || c.MayRepeat && m.class != store.Misconfigured && !errors.Is(err, redis.ErrClosed)
}

// refresh makes a cluster's client look for the masters anew: it does so by itself only where it may send again.
func (c *Call) refresh(ctx context.Context, m meaning) {
	if cluster, ok := c.Client.(*redis.ClusterClient); ok && m.class != store.Misconfigured && m.reaction != load {
		cluster.ReloadState(ctx)
	}
}

func (c *Call) fail(m meaning, err error) error {
	m, err = c.Server.spoken().heard(m, err)
	if c.Repeated() && m.class == store.Unavailable {
		m.class = store.Indeterminate // an earlier sending may have been executed
	}
	return Fail(c.Package, m.class, err, m.mend)
}

// Explain is err, of a command that changes nothing, as a [store.Error] of a package's. It is nil if err is.
func Explain(pkg string, err error) error {
	if err == nil {
		return nil
	}
	m := inspect(err, false, single)
	return Fail(pkg, m.class, err, m.mend)
}

// Refused says whether err is one that somebody must mend.
func Refused(err error) bool { return inspect(err, true, single).class == store.Misconfigured }

// Fail is err as a [store.Error] of a package's, with what to do about it, if anything.
func Fail(pkg string, class store.Class, err error, mend string) error {
	err = discreet(err)
	if mend != "" {
		err = fmt.Errorf("%s: %w: %s", pkg, err, mend)
	} else {
		err = fmt.Errorf("%s: %w", pkg, err)
	}
	return &store.Error{Class: class, Err: err}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
