package mends

import "fmt"

type Orders interface {
	/* want `no blank behind the //` */ // ratelimit:user 10,1s by=id
	Blank(id string) error

	/* want `the name in lower case` */ //ratelimit:Global 10,1s
	Upper() error

	/* want `"ratelimit" for "rate-limit"` */ //rate-limit:global 10,1s
	Word() error

	/* want `unknown directive "glbal"` */ //ratelimit:glbal 10,1s
	Directive() error

	/* want `unknown option "onfial"` */ //ratelimit:global 10,1s onfial=open
	Option() error

	/* want `unknown value "opne"` */ //ratelimit:global 10,1s onfail=opne
	Value() error

	/* want `by: undefined: naem; did you mean name` */ //ratelimit:key 10,1s by=naem
	Expression(name string) error

	/* want `ip limit on NoContext, which has no context.Context` */ //ratelimit:ip 10,1s
	NoContext(fmt.Stringer) error

	/* want `detached from Detached by a blank line` */ //ratelimit:global 10,1s

	Detached() error

	/* want `detached from Documented by a blank line` */ //ratelimit:global 10,1s

	// Documented has a comment of its own.
	Documented() error

	//ratelimit:global 10,1s
	/* want `Twice has the limit "global 10,1s" twice` */ //ratelimit:global 10,1s
	Twice() error

	/* want `has the unknown unit "sec"` */ //ratelimit:global 10,1sec
	Unit() error

	/* want `found spaces in the rule "10 / 1min"` */ //ratelimit:global 10 / 1min
	Spaces() error

	/* want `found option onfail again` */ //ratelimit:global 10,1s onfail=open name=a onfail=open
	Again() error

	/* want `stands there already` */ //ratelimit:global 10,1s 10,1s
	Rule() error

	/* want `a no-break space` */ //ratelimit:global 10,1s
	NoBreak() error

	/* want `want the rules first` */ //ratelimit:global onfail=open 10,1s
	Order() error

	// What follows has no one mend.

	/* want `has no rules` */ //ratelimit:global
	Rules() error
}

/* want `did you mean NewNamed` */ //ratelimit:wrapper constructor=NewNmaed
type Named interface {
	//ratelimit:global 10,1s
	Do() error
}

func NewNamed() Named { return nil }
