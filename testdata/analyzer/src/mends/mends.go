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

	// What follows has no one mend.

	/* want `has no rules` */ //ratelimit:global
	Rules() error
}
