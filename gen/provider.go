package gen

import (
	"go/ast"
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
	// ctor is the constructor in the package that the provider is over.
	ctor *types.Func
	// composed is set where ctor returns the service itself, so that the provider calls it; else the provider takes
	// what ctor returns.
	composed bool
	// fails and cleans say that ctor also returns an error, a clean-up function.
	fails, cleans bool
}

// provider returns the provider of a service, nil and a reason where it has none.
func (u *unit) provider(s *service) (*provider, string) {
	if s.typeParams().Len() > 0 {
		return nil, s.name() + " has type parameters: provide the instances that the program uses"
	}
	var found []*provider
	values := ""
	scope := u.types.Scope()
	for _, name := range scope.Names() {
		fn, ok := scope.Lookup(name).(*types.Func)
		if !ok || !fn.Exported() || !strings.HasPrefix(name, "New") || !u.builtWith(s, fn) {
			continue
		}
		if p := constructs(s, fn); p != nil {
			found = append(found, p)
		} else if s.iface == nil && !s.pointer && pointsTo(s, fn) {
			values = fn.Name()
		}
	}
	switch len(found) {
	case 1:
		return found[0], ""
	case 0:
		if values != "" {
			return nil, values + " returns *" + s.name() + ", and the wrapper takes " + s.name() + ", whose methods all have it for their receiver: let one of them have *" + s.name()
		}
		return nil, "no function New… of this package returns " + s.name() + ", or a type that implements it"
	}
	var list []string
	for _, p := range found {
		list = append(list, p.ctor.Name())
	}
	return nil, "there are several constructors of " + s.name() + ": " + strings.Join(list, ", ")
}

// pointsTo reports whether fn returns a pointer to the service's type.
func pointsTo(s *service, fn *types.Func) bool {
	results := fn.Signature().Results()
	return results.Len() > 0 && types.Identical(results.At(0).Type(), types.NewPointer(s.obj.Type()))
}

// takes reports whether a constructor is given what it returns: it decorates.
func takes(s *service, sig *types.Signature) bool {
	for v := range sig.Params().Variables() {
		t := v.Type()
		if ptr, ok := t.Underlying().(*types.Pointer); ok && s.iface == nil {
			t = ptr.Elem()
		}
		if types.Identical(t, s.obj.Type()) {
			return true
		}
	}
	return false
}

// builtWith reports whether a function is there wherever the service is.
func (u *unit) builtWith(s *service, fn *types.Func) bool {
	src := u.source(fn.Pos())
	if src == nil {
		return false
	}
	if ast.IsGenerated(src.ast) {
		return false // a mock, or another tool's wrapper
	}
	suffix, build := src.platform()
	sameSuffix, sameBuild := s.src.platform()
	return suffix == ".go" && build == "" || suffix == sameSuffix && build == sameBuild
}

// constructs returns the provider over fn, nil if fn does not construct the service.
func constructs(s *service, fn *types.Func) *provider {
	sig := fn.Signature()
	results := sig.Results()
	if sig.TypeParams().Len() > 0 || results.Len() == 0 || results.Len() > 3 || takes(s, sig) {
		return nil
	}
	p := &provider{service: s, ctor: fn}
	if results.Len() > 1 {
		p.fails = true
		p.cleans = results.Len() == 3
		if !isError(results.At(results.Len()-1).Type()) || p.cleans && !isCleanup(results.At(1).Type()) {
			return nil
		}
	}
	made := results.At(0).Type()
	switch {
	case s.iface == nil:
		return p.ifTrue(types.Identical(made, s.target()))
	case types.Identical(made, s.obj.Type()):
		p.composed = true
		return p
	case types.IsInterface(made):
		return nil
	default:
		return p.ifTrue(types.Implements(made, s.iface))
	}
}

func (p *provider) ifTrue(ok bool) *provider {
	if ok {
		return p
	}
	return nil
}

// target returns the type that a concrete service's wrapper embeds.
func (s *service) target() types.Type {
	if s.pointer {
		return types.NewPointer(s.obj.Type())
	}
	return s.obj.Type()
}

func isCleanup(t types.Type) bool {
	sig, ok := t.Underlying().(*types.Signature)
	return ok && sig.Params().Len() == 0 && sig.Results().Len() == 0
}

// needsFunc reports whether the provider is a function of its own: the wrapper's constructor provides a concrete
// type as it is.
func (p *provider) needsFunc() bool { return p.service.iface != nil }

// name returns the function that provides.
func (p *provider) name() string {
	if p.needsFunc() {
		return p.service.provider()
	}
	return p.service.constructor()
}

// provider writes the provider function.
func (w *writer) provider(wp *wrapperPlan, p *provider) {
	if !p.needsFunc() {
		return
	}
	s := p.service
	t := w.typeScope(s, nil)
	if p.composed {
		w.composed(t, p)
	} else {
		made := t.print(p.ctor.Signature().Results().At(0).Type())
		w.printf("// %s returns next behind its limits, as what the program takes for %s.\n", s.provider(), article(s.name())+" ["+s.name()+"]")
		w.printf("func %s(next %s, limiter *%s.Limiter) %s {\nreturn %s(next, limiter)\n}\n\n",
			s.provider(), made, w.qualify(runtimePath, "ratelimit"), s.name(), s.constructor())
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
	for i := range sig.Params().Len() {
		if sig.Variadic() && i == sig.Params().Len()-1 {
			break
		}
		v := sig.Params().At(i)
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
	call := p.ctor.Name() + "(" + strings.Join(args, ", ") + ")"
	w.printf("// %s returns what [%s] returns, behind its limits.\n", s.provider(), p.ctor.Name())
	if sig.Variadic() {
		w.printf("// It passes nothing for the variadic parameter %s, which no graph provides.\n", sig.Params().At(sig.Params().Len()-1).Name())
	}
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
