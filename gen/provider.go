package gen

import (
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// DI is what dependency injection files are generated for.
type DI struct {
	Fx, Wire bool
	// Found asks, in place of the others, for those that were generated before: each package's own choice.
	Found bool
}

// ParseDI reads the value of a flag: "fx", "wire", "fx,wire" or "none".
func ParseDI(text string) (di DI, ok bool) {
	if text == "none" {
		return DI{}, true
	}
	for _, word := range strings.Split(text, ",") {
		switch word {
		case "fx":
			di.Fx = true
		case "wire":
			di.Wire = true
		default:
			return DI{}, false
		}
	}
	return di, true
}

// in returns what is generated for a directory.
func (di DI) in(d *directory) DI {
	if !di.Found {
		return di
	}
	has := func(base string) bool {
		return slices.ContainsFunc(d.generated, func(path string) bool { return strings.HasPrefix(filepath.Base(path), base) })
	}
	return DI{Fx: has(fxFile), Wire: has(wireFile)}
}

// The names of dependency injection files, before what their build constraints add.
const (
	fxFile   = "ratelimit_fx"
	wireFile = "ratelimit_wire"
)

// The names of what dependency injection files declare.
const (
	moduleName = "RateLimitModule"
	setName    = "RateLimitSet"
)

// provider is how a service's wrapper is made in a graph.
type provider struct {
	service *service
	// ctor is the constructor in the package that the provider is over; nil for a concrete type that something else makes.
	ctor *types.Func
	// composed is set where ctor returns the service itself, so that the provider calls it; else the provider takes
	// what ctor returns.
	composed bool
	// fails and cleans say that ctor also returns an error, a clean-up function.
	fails, cleans bool
	// points is set where ctor returns a pointer to the value that the wrapper has.
	points bool
}

// needsFunc reports whether the provider is a function of its own: the wrapper's constructor provides a concrete
// type as it is.
func (p *provider) needsFunc() bool { return p.service.iface != nil || p.points }

// name returns the function that provides.
func (p *provider) name() string {
	if p.needsFunc() {
		return p.service.provider()
	}
	return p.service.constructor()
}

// variadic reports whether the provider has the variadic parameter of its constructor.
func (p *provider) variadic() bool { return p.composed && p.ctor.Signature().Variadic() }

// provider writes the provider function.
func (w *writer) provider(wp *wrapperPlan, p *provider) {
	if !p.needsFunc() {
		return
	}
	s := p.service
	t := w.typeScope(s, nil)
	runtime := w.qualify(runtimePath, "ratelimit")
	switch {
	case p.composed:
		w.composed(t, p)
	case p.points:
		w.printf("// %s returns a copy of next behind its limits. It panics if next or limiter is nil.\n", s.provider())
		w.printf("func %s(next *%s, limiter *%s.Limiter) *%s {\nif next == nil {\npanic(%q)\n}\nreturn %s(*next, limiter)\n}\n\n",
			s.provider(), s.name(), runtime, s.wrapper(), w.unit.pkg.Name+"."+s.provider()+": next is nil", s.constructor())
	default:
		made := t.print(p.ctor.Signature().Results().At(0).Type())
		w.printf("// %s returns next behind its limits, as what the program takes for %s.\n", s.provider(), article(s.name())+" ["+s.name()+"]")
		w.printf("func %s(next %s, limiter *%s.Limiter) %s {\nreturn %s(next, limiter)\n}\n\n",
			s.provider(), made, runtime, s.name(), s.constructor())
	}
	for _, problem := range t.problems {
		w.problem(p.ctor.Pos(), "%s: %s", p.ctor.Name(), problem)
	}
}

// composed writes a provider that calls the constructor, so that nothing else gets at the service without limits.
func (w *writer) composed(t *typeScope, p *provider) {
	s, sig := p.service, p.ctor.Signature()
	taken := names{p.ctor.Name(): true, s.constructor(): true, "nil": true, "_": true}
	var params, args []string
	for v := range sig.Params().Variables() {
		name := v.Name()
		if name == "" || name == "_" {
			name = "arg"
		}
		name = taken.take(name)
		params = append(params, name+" "+t.print(v.Type()))
		args = append(args, name)
	}
	limiter, next, cleanup, err := taken.take("limiter"), taken.take("next"), taken.take("cleanup"), taken.take("err")
	params = append(params, limiter+" *"+w.qualify(runtimePath, "ratelimit")+".Limiter")
	w.printf("// %s returns what [%s] returns, behind its limits.\n", s.provider(), p.ctor.Name())
	if last := len(args) - 1; sig.Variadic() {
		t.buf.Reset()
		t.param(sig.Params().At(last).Type(), true)
		params[last] = params[last+1]
		params[last+1] = args[last] + " " + t.buf.String()
		args[last] += "..."
	}
	call := p.ctor.Name() + "(" + strings.Join(args, ", ") + ")"
	head := "func " + s.provider() + "(" + strings.Join(params, ", ") + ") "
	switch {
	case p.cleans:
		w.printf("%s(%s, func(), error) {\n%s, %s, %s := %s\nif %[5]s != nil {\nreturn nil, nil, %[5]s\n}\nreturn %[7]s(%[3]s, %[8]s), %[4]s, nil\n}\n\n",
			head, s.name(), next, cleanup, err, call, s.constructor(), limiter)
	case p.fails:
		w.printf("%s(%s, error) {\n%s, %s := %s\nif %[4]s != nil {\nreturn nil, %[4]s\n}\nreturn %[6]s(%[3]s, %[7]s), nil\n}\n\n",
			head, s.name(), next, err, call, s.constructor(), limiter)
	default:
		w.printf("%s%s {\nreturn %s(%s, %s)\n}\n\n", head, s.name(), s.constructor(), call, limiter)
	}
}
