package storetest

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlgen/rlgen/rules"
)

// trace is one case of a trace file.
type trace struct {
	line  int           // of its first
	align time.Duration // the calls begin at a multiple of it, unless it is 0
	steps []step
}

// step is one line of a case that does something.
type step struct {
	line    int
	text    string
	limits  []limit // the limits from here on, where the line declares one
	advance time.Duration
	asks    []ask
	back    int  // number of the step to give back, from 1, or 0
	reset   bool // what asks names
	want    string
}

// limit is a declared limit.
type limit struct {
	name string
	rules.Limit
}

// ask is what a call asks of one limit.
type ask struct {
	limit int // index into the declared limits
	id    string
	cost  int64
}

// parseTraces reads a trace file. README.txt of testdata/traces says what is in it.
func parseTraces(text []byte) ([]trace, error) {
	var traces []trace
	var p *traceParser
	finish := func() error {
		if p == nil {
			return nil
		}
		tr, err := p.finish()
		traces, p = append(traces, tr), nil
		return err
	}
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; scanner.Scan(); n++ {
		line := strings.TrimSpace(scanner.Text())
		var err error
		switch {
		case line == "":
			err = finish()
		case line[0] == '#':
		default:
			if p == nil {
				p = &traceParser{trace: trace{line: n}}
			}
			err = p.parse(n, line)
		}
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
	}
	return traces, finish()
}

// traceParser reads the lines of one case.
type traceParser struct {
	trace   trace
	limits  []limit
	part    int // 0 limits, 1 calls, 2 answers
	answers []string
}

func (p *traceParser) parse(n int, line string) error {
	switch {
	case p.part == 0 && line == "take":
		p.part = 1
	case p.part == 0 && strings.HasPrefix(line, "take "):
		p.part = 1
		return p.alignTo(strings.TrimPrefix(line, "take "))
	case p.part == 1 && line == "----":
		p.part = 2
	case p.part == 2:
		p.answers = append(p.answers, line)
	case strings.HasPrefix(line, "limit "):
		return p.declare(n, line)
	case p.part == 1:
		return p.call(n, line)
	default:
		return fmt.Errorf("found %q, want a limit or take", line)
	}
	return nil
}

func (p *traceParser) alignTo(text string) (err error) {
	p.trace.align, err = time.ParseDuration(text)
	if err == nil && p.trace.align <= 0 {
		err = fmt.Errorf("found take %s, want a time above 0", text)
	}
	return err
}

func (p *traceParser) declare(n int, line string) error {
	words := strings.Fields(line)[1:]
	var l limit
	if !strings.Contains(words[0], ",") {
		l.name, words = words[0], words[1:]
	}
	options := len(words)
	for options > 0 && strings.Contains(words[options-1], "=") {
		options--
	}
	for _, rule := range words[:options] { // one by one: a trace may have rules that never bind
		d, err := rules.Parse("//ratelimit:global " + rule + " " + strings.Join(words[options:], " "))
		if err != nil {
			return err
		}
		d.Limit.Rules = append(l.Rules, d.Limit.Rules...)
		l.Limit = d.Limit
	}
	limits := append([]limit(nil), p.limits...)
	if i := find(limits, l.name); i >= 0 {
		limits[i] = l
	} else {
		limits = append(limits, l)
	}
	p.limits = limits
	p.trace.steps = append(p.trace.steps, step{line: n, text: line, limits: limits})
	return nil
}

func (p *traceParser) call(n int, line string) error {
	words := strings.Fields(line)
	s := step{line: n, text: line}
	var err error
	if s.advance, err = time.ParseDuration(words[0]); err != nil {
		return err
	}
	words = words[1:]
	if len(words)%2 != 0 || len(words) == 0 {
		return fmt.Errorf("found %q, want a step and pairs of an id and a cost", line)
	}
	if words[0] == "back" {
		s.back, err = strconv.Atoi(words[1])
		p.trace.steps = append(p.trace.steps, s)
		return err
	}
	if words[0] == "reset" && len(words) == 2 {
		s.reset, words = true, []string{words[1], "0"}
	}
	for ; len(words) > 0; words = words[2:] {
		a, err := p.ask(words[0], words[1])
		if err != nil {
			return err
		}
		s.asks = append(s.asks, a)
	}
	p.trace.steps = append(p.trace.steps, s)
	return nil
}

func (p *traceParser) ask(who, cost string) (ask, error) {
	a := ask{limit: find(p.limits, ""), id: who}
	if a.limit < 0 {
		var name string
		name, a.id, _ = strings.Cut(who, "=")
		if a.limit = find(p.limits, name); a.limit < 0 {
			return a, fmt.Errorf("limit %q is not declared", name)
		}
	}
	var err error
	a.cost, err = strconv.ParseInt(cost, 10, 64)
	return a, err
}

// finish deals the answers to the steps that have one.
func (p *traceParser) finish() (trace, error) {
	answers := p.answers
	for i := range p.trace.steps {
		if s := &p.trace.steps[i]; s.limits == nil {
			if len(answers) == 0 {
				return trace{}, fmt.Errorf("case at line %d: no answer to line %d, %q", p.trace.line, s.line, s.text)
			}
			s.want, answers = strings.Join(strings.Fields(answers[0]), " "), answers[1:]
		}
	}
	if len(answers) > 0 {
		return trace{}, fmt.Errorf("case at line %d: answer %q to no line", p.trace.line, answers[0])
	}
	return p.trace, nil
}

func find(limits []limit, name string) int {
	for i := range limits {
		if limits[i].name == name {
			return i
		}
	}
	return -1
}
