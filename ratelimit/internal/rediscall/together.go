package rediscall

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// outcome is what became of one sending.
type outcome struct {
	begun    time.Time
	reply    []int64
	err      error
	panicked bool // which err says
}

// Once sends a call once, and says whether it is over: nothing of it is to be sent again then, and Run returns at once. Else Run goes on with it.
func (c *Call) Once(ctx context.Context) (over bool) {
	c.first = &outcome{begun: time.Now()}
	defer func() {
		if p := recover(); p != nil {
			c.first.err, c.first.panicked, over = c.panicked(p), true, true
		}
	}()
	c.prepare()
	c.first.reply, c.first.err = c.process(ctx)
	return c.over()
}

// Together sends calls by one pipeline of their client, each at most once unless the server does not know the script: then by one more, in which the first call tells it. It tells over
// the place of each call that is over, as soon as that is known, one after the other; and returns the places of the others. All calls are to be run then: Run returns at once what
// became of those that are over, and goes on with the others. All of them have a nonce.
func Together(ctx context.Context, calls []*Call, over func(place int)) (others []int) {
	places := make([]int, len(calls))
	for i := range places {
		places[i] = i
	}
	others = pipe(ctx, calls, places, over)
	known := 0
	for _, i := range others {
		if !redis.HasErrorPrefix(calls[i].first.err, "NOSCRIPT") {
			others[known], known = i, known+1
		} else {
			places = append(places, i)
		}
	}
	if unknown := places[len(calls):]; len(unknown) > 0 {
		calls[unknown[0]].told = true
		return append(others[:known], pipe(ctx, calls, unknown, over)...)
	}
	return others
}

// pipe sends the calls that have these places by one pipeline.
func pipe(ctx context.Context, calls []*Call, places []int, over func(place int)) []int {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := &pipeline{commands: make([]piped, len(places)), begun: time.Now(), open: len(places), over: over, stop: stop}
	commands := calls[0].Client.Pipeline()
	for i, place := range places {
		c := calls[place]
		c.prepare()
		cmd := redis.NewIntSliceCmd(ctx, c.Words...)
		p.commands[i] = piped{command: command{cmd, c}, cmd: cmd, pipeline: p, place: place}
		_ = commands.Process(ctx, &p.commands[i])
	}
	p.exec(ctx, commands)
	return p.others
}

// pipeline is the commands of several calls that are written together.
type pipeline struct {
	commands []piped
	begun    time.Time
	over     func(place int)

	mu       sync.Mutex
	open     int                // commands of which it is not known yet what became of them
	others   []int              // the places of calls that are to go on
	restless bool               // the client would go on with one of the others
	stop     context.CancelFunc // keeps it from that
}

// piped is the command of a call in a pipeline, which is written once. The pipeline of a Cluster's client would go on with commands that another server is
// to be asked, or that it had no connection for, after a pause in which those wait that are decided, and would not tell of them what then becomes of their connection. One that a
// hook sends again does nothing the second time: its words are others then, though the client still finds its server by the first ones, which are the command's own.
type piped struct {
	command
	cmd      *redis.IntSliceCmd
	pipeline *pipeline
	place    int
	known    bool // what became of it
}

// exec sends the pipeline, and sees to it that something becomes of each command.
func (p *pipeline) exec(ctx context.Context, commands redis.Pipeliner) {
	var failed error
	defer func() {
		panicked := recover()
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range p.commands {
			switch c := &p.commands[i]; {
			case c.known:
			case panicked != nil:
				p.end(c, outcome{err: c.call.panicked(panicked), panicked: true})
			case c.call.sent.begun():
				p.end(c, outcome{err: errUntold}) // by a hook, which has not waited for the client
			default:
				p.end(c, outcome{err: failed}) // by a hook, which has not handed the commands on
			}
		}
	}()
	_, failed = commands.Exec(ctx)
}

// errUntold is what became of a command that may have been written, and of which the client says nothing.
var errUntold = errors.New("the client has not said what became of the command")

func (c *piped) Args() []any {
	c.pipeline.mu.Lock() // which keeps what is loaded from being told of meanwhile, where a hook has not waited for the client
	defer c.pipeline.mu.Unlock()
	if c.known {
		return nothing
	}
	return c.command.Args()
}

// SetErr takes note of what became of the command: the client says so as soon as it knows.
func (c *piped) SetErr(err error) {
	p := c.pipeline
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.known {
		return
	}
	c.cmd.SetErr(err)
	p.restless = p.restless || err != nil && leadsOn(err)
	reply, err := c.call.own(c.cmd.Val(), err)
	p.end(c, outcome{reply: reply, err: err})
	if p.open == 0 && p.restless {
		p.stop()
	}
}

// end takes note of what became of a command, once. The pipeline's mu is held.
func (p *pipeline) end(c *piped, of outcome) {
	of.begun = p.begun
	c.known, c.call.first = true, &of
	p.open--
	if c.call.over() {
		p.over(c.place)
	} else {
		p.others = append(p.others, c.place)
	}
}

// leadsOn says whether an error is one after which a pipeline of a Cluster's client goes on.
func leadsOn(err error) bool {
	return !errors.As(err, new(redis.Error)) || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK")
}

// over says whether nothing of a call that was sent is to be sent again.
func (c *Call) over() bool {
	if c.first.err == nil || c.first.panicked {
		return true
	}
	m := inspect(c.first.err, c.sent.begun(), askerOf(c.Client))
	return m.reaction != load && !c.mayGoAgain(m, c.first.err)
}
