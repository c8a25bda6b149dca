package rules

import (
	"go/token"
	"slices"
)

// wrapperOptions are the options of the wrapper directive.
var wrapperOptions = []string{"constructor"}

// parseWrapper reads the arguments of a wrapper directive: a name, options, or both.
func (p *line) parseWrapper(args []field, end int) {
	if len(args) == 0 {
		p.failf(end, "directive wrapper says nothing, want a name for the wrapper, constructor=<function>, or both; write %q", p.known.example())
		return
	}
	if args[0].name == "" {
		p.parseWrapperName(args[0])
		args = args[1:]
	}
	for i, f := range args {
		if f.name == "" {
			p.failf(f.at, "found %q, want a name first, and behind it nothing but constructor=<function>; write %q", p.span(args[i:]), p.text[:args[i].at-1])
			return
		}
		p.parseWrapperOption(f)
	}
}

func (p *line) parseWrapperName(f field) {
	if !token.IsIdentifier(f.raw) || f.raw == "_" {
		p.failf(f.at, "found %q, want a Go identifier, such as LimitedOrders", f.raw)
		return
	}
	p.d.Wrapper = f.raw
	p.d.Columns["wrapper"] = f.at + 1
}

func (p *line) parseWrapperOption(f field) {
	value := f.value.text
	switch {
	case slices.Contains(optionNames, f.name):
		p.failf(f.at, "found option %s on wrapper, which limits nothing, want it on %s", f.name, list(counting))
	case f.name != "constructor":
		p.failf(f.at, "unknown option %q, want constructor%s", f.name, didYouMean(f.name, wrapperOptions))
	case p.d.Columns["constructor"] != 0:
		p.again(f, f.name)
	case value == "":
		p.failf(f.value.at, "option constructor has no value, want the function that makes the service, or none; write constructor=NewService")
	case !token.IsIdentifier(value) || value == "_":
		p.failf(f.value.at, "option constructor has %q, want the name of a function of this package, or none; write constructor=NewService", value)
	default:
		p.d.Constructor = value
		p.d.Columns["constructor"] = f.value.column(0)
	}
}
