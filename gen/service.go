package gen

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/rlgen/rlgen/rules"
)

// service is a type with directives: an interface, or a concrete type with limited methods.
type service struct {
	unit *unit
	src  *source // that declares the type
	spec *ast.TypeSpec
	// lines are the directives on the type, own those on its methods, both in source order.
	lines []*directive
	own   map[string]*annotated
	// given is the directive that names the wrapper or its constructor, nil if none does.
	given *directive

	obj *types.TypeName
	// iface is nil for a concrete type.
	iface *types.Interface
	// pointer is set for a concrete type that has methods on its pointer.
	pointer bool
	// seals are what the wrapper of an interface embeds for its unexported methods of other packages.
	seals []*seal
	// methods are what the wrapper declares: every method of an interface, the limited ones of a concrete type.
	methods []*method
}

// annotated is a method that has directives of its own.
type annotated struct {
	name  *ast.Ident
	src   *source
	lines []*directive
	found bool // the type has the method
}

// method is one method of a service.
type method struct {
	service *service
	fn      *types.Func
	sig     *types.Signature
	src     *source // whose output has the method
	pos     token.Pos
	// promoted is set where a concrete type has the method from what it embeds.
	promoted bool
	// varies is set where some builds that have the service may not have the method.
	varies  bool
	limits  []*limit // empty where the wrapper only passes the call on
	ctx     int      // index of the parameter that has the context, -1 if none has
	from    *service // whose limits an interface's method has from what it embeds, nil for those of its own
	carried carriage // how it has it
	err     int      // index of the result that carries a denial, -1 if none does
	zero    bool     // a denied call returns zero values
}

// limit is one limit of a method.
type limit struct {
	rules.Limit
	line           *directive
	unit           *unit       // of the method, for those that share a bucket
	by, cost, when *expression // nil where the directive has none
}

// service returns the unit's service of a type, a new one if it has none yet.
func (u *unit) service(spec *ast.TypeSpec) *service {
	for _, s := range u.services {
		if s.spec == spec {
			return s
		}
	}
	s := &service{unit: u, src: u.source(spec.Pos()), spec: spec, own: map[string]*annotated{}}
	u.services = append(u.services, s)
	return s
}

// add hangs a directive on the service, or on one of its methods.
func (s *service) add(u *unit, d *directive, method string, name *ast.Ident) {
	if method == "" {
		s.addLine(u, d)
		return
	}
	if d.Name == "wrapper" {
		u.errorf(d.pos, "wrapper on the method %s, want it on the type %s", method, s.spec.Name.Name)
		return
	}
	m := s.own[method]
	if m == nil {
		m = &annotated{name: name, src: d.src}
		s.own[method] = m
	}
	m.lines = append(m.lines, d)
}

func (s *service) addLine(u *unit, d *directive) {
	switch {
	case d.Name == "wrapper" && s.given != nil:
		u.errorf(d.pos, "type %s has two wrapper directives, want one, with a name, a constructor or both; the other is at line %d", s.spec.Name.Name, u.position(s.given.pos).Line)
	case d.Name == "wrapper":
		s.given = d
	case !d.Counts():
		u.errorf(d.pos, "%s on the type %s, want it on a method that the type's directives are not for; delete the line to limit nothing", d.Name, s.spec.Name.Name)
	default:
		s.lines = append(s.lines, d)
	}
}

func (s *service) name() string { return s.spec.Name.Name }

// wrapper returns the name of the generated type.
func (s *service) wrapper() string {
	switch {
	case s.given != nil && s.given.Wrapper != "":
		return s.given.Wrapper
	case token.IsExported(s.name()):
		return "RateLimited" + s.name()
	default:
		return "rateLimited" + upperFirst(s.name())
	}
}

// constructor and provider return the names of the generated functions.
func (s *service) constructor() string { return derived("New", s.wrapper()) }
func (s *service) provider() string    { return derived("Provide", s.wrapper()) }

// derived returns prefix before name, exported as name is.
func derived(prefix, name string) string {
	if token.IsExported(name) {
		return prefix + name
	}
	return lowerFirst(prefix) + upperFirst(name)
}

// key returns the name by which limits' keys call the service: "orders.Orders".
func (s *service) key() string { return s.unit.pkg.Name + "." + s.name() }

// typeParams returns the type parameters of the service's type.
func (s *service) typeParams() *types.TypeParamList {
	switch t := s.obj.Type().(type) {
	case *types.Alias:
		return t.TypeParams()
	case *types.Named:
		return t.TypeParams()
	}
	return nil
}

// limited returns the methods that have limits.
func (s *service) limited() []*method {
	var limited []*method
	for _, m := range s.methods {
		if len(m.limits) > 0 {
			limited = append(limited, m)
		}
	}
	return limited
}

// policy returns the method's policy.
func (m *method) policy() *rules.Policy {
	p := &rules.Policy{Package: m.service.unit.pkg.PkgPath, Type: m.service.key(), Method: m.fn.Name()}
	if m.from != nil {
		p.Type = m.from.key()
	}
	for _, l := range m.limits {
		p.Limits = append(p.Limits, l.Limit)
	}
	return p
}
