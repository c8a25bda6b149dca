package gen

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// world is what drawn types are made of: packages with types of every kind, some of one name, and a package p that
// types are printed in.
type world struct {
	t *rapid.T
	p *types.Package
	// packages are those that p can import.
	packages map[string]*types.Package
	// plain are types that p can name, generic are ones that want arguments, and both are in the order of making.
	plain   []types.Type
	generic []genericType
	// hidden are the predeclared names that p declares anew.
	hidden names
	params []*types.TypeParam
	named  int // the number of names given so far
}

// genericType is a generic type or alias.
type genericType interface {
	types.Type
	TypeParams() *types.TypeParamList
}

// drawWorld makes the packages.
func drawWorld(t *rapid.T) *world {
	w := &world{t: t, packages: map[string]*types.Package{}, hidden: names{}}
	w.p = types.NewPackage("example.com/p", "p")
	for _, path := range []string{"example.com/a/util", "example.com/b/util", "example.com/int", "example.com/go-string"} {
		name := path[len(path)-4:]
		if path == "example.com/int" {
			name = "int"
		} else if path == "example.com/go-string" {
			name = "string"
		}
		w.packages[path] = types.NewPackage(path, name)
	}
	inner := types.NewPackage("example.org/x/internal/inner", "inner") // which p must not import
	for _, path := range slices.Sorted(maps.Keys(w.packages)) {
		w.declare(w.packages[path], inner)
	}
	w.declare(w.p, inner)
	for _, name := range []string{"byte", "rune", "any", "true", "len"} {
		if rapid.IntRange(0, 7).Draw(t, "hides "+name) == 0 {
			w.hidden.add(name)
			w.plain = append(w.plain, w.define(w.p, name, types.Typ[types.Int16]))
		}
	}
	return w
}

// declare fills a package.
func (w *world) declare(pkg, inner *types.Package) {
	field := types.NewField(token.NoPos, pkg, "n", types.Typ[types.Int], false)
	s := w.define(pkg, "S", types.NewStruct([]*types.Var{field}, nil))
	method := types.NewFunc(token.NoPos, pkg, "m"+w.name(), types.NewSignatureType(nil, nil, nil, nil, nil, false))
	seal := types.NewInterfaceType([]*types.Func{method}, nil).Complete()
	i := w.define(pkg, "I", seal)
	literal := w.alias(pkg, "L", types.NewStruct(nil, nil), nil)
	list := w.alias(pkg, "A", types.NewSlice(s), nil)
	w.plain = append(w.plain, s, i, literal, list, w.alias(pkg, "AA", list, nil), w.alias(pkg, "AI", i, nil),
		w.alias(pkg, "secret", types.NewMap(types.Typ[types.String], list), nil),
		w.alias(inner, "Far"+w.name(), types.NewPointer(s), nil))
	g := w.define(pkg, "G", types.NewStruct(nil, nil), w.param("T", types.Universe.Lookup("any").Type()))
	comparable := types.Universe.Lookup("comparable").Type()
	pair := w.define(pkg, "Pair", types.NewStruct(nil, nil), w.param("K", comparable), w.param("V", i))
	elem := w.param("E", types.Universe.Lookup("any").Type())
	w.generic = append(w.generic, g, pair,
		w.alias(pkg, "GA", types.NewMap(types.Typ[types.String], elem), []*types.TypeParam{elem}))
	elem = w.param("E", comparable)
	w.generic = append(w.generic, w.alias(pkg, "hiddenSet", types.NewMap(elem, types.NewStruct(nil, nil)), []*types.TypeParam{elem}))
}

// name returns a new name.
func (w *world) name() string {
	w.named++
	return fmt.Sprint("x", w.named)
}

func (w *world) param(name string, constraint types.Type) *types.TypeParam {
	return types.NewTypeParam(types.NewTypeName(token.NoPos, w.p, name, nil), constraint)
}

func (w *world) define(pkg *types.Package, name string, underlying types.Type, params ...*types.TypeParam) *types.Named {
	obj := types.NewTypeName(token.NoPos, pkg, name, nil)
	t := types.NewNamed(obj, underlying, nil)
	t.SetTypeParams(params)
	pkg.Scope().Insert(obj)
	return t
}

func (w *world) alias(pkg *types.Package, name string, rhs types.Type, params []*types.TypeParam) *types.Alias {
	obj := types.NewTypeName(token.NoPos, pkg, name, nil)
	t := types.NewAlias(obj, rhs)
	t.SetTypeParams(params)
	pkg.Scope().Insert(obj)
	return t
}

// pick draws a number below n.
func (w *world) pick(n int, what string) int { return rapid.IntRange(0, n-1).Draw(w.t, what) }

func (w *world) maybe(what string) bool { return rapid.Bool().Draw(w.t, what) }

// typ draws a type that a variable may have.
func (w *world) typ(depth int) types.Type {
	if depth == 0 {
		return w.leaf()
	}
	switch w.pick(12, "type") {
	case 0:
		return types.NewPointer(w.typ(depth - 1))
	case 1:
		return types.NewSlice(w.typ(depth - 1))
	case 2:
		return types.NewArray(w.typ(depth-1), int64(w.pick(3, "length")))
	case 3:
		return types.NewMap(w.key(depth-1), w.typ(depth-1))
	case 4, 5:
		return types.NewChan(types.ChanDir(w.pick(3, "direction")), w.typ(depth-1))
	case 6:
		return w.signature(depth - 1)
	case 7:
		return w.structure(depth - 1)
	case 8:
		return w.iface(depth - 1)
	case 9, 10:
		return w.instance(depth - 1)
	}
	return w.leaf()
}

// leaf draws a type without parts.
func (w *world) leaf() types.Type {
	if n := len(w.params); n > 0 && w.maybe("is a parameter") {
		return w.params[w.pick(n, "parameter")]
	}
	switch w.pick(3, "leaf") {
	case 0:
		return w.plain[w.pick(len(w.plain), "named")]
	case 1:
		return types.Universe.Lookup(rapid.SampledFrom([]string{"any", "error", "byte", "rune"}).Draw(w.t, "name")).Type()
	}
	if k := types.BasicKind(w.pick(int(types.UnsafePointer), "basic") + 1); k != types.UntypedNil {
		return types.Typ[k]
	}
	return types.Typ[types.String]
}

// key draws a type that maps may have for a key.
func (w *world) key(depth int) types.Type {
	if t := w.typ(depth); types.Comparable(t) {
		return t
	}
	return types.Typ[types.String]
}

// instance draws an instance of a generic type.
func (w *world) instance(depth int) types.Type {
	g := w.generic[w.pick(len(w.generic), "generic")]
	var args []types.Type
	for param := range g.TypeParams().TypeParams() {
		t := w.typ(depth)
		if constraint := param.Constraint().Underlying().(*types.Interface); !types.Satisfies(t, constraint) {
			t = param.Constraint() // which is an interface that has values, or
			if constraint.IsComparable() {
				t = types.Typ[types.Int]
			}
		}
		args = append(args, t)
	}
	t, err := types.Instantiate(nil, g, args, true)
	if err != nil {
		w.t.Fatalf("Instantiate(%s, %s): %v", g, args, err)
	}
	return t
}

func (w *world) signature(depth int) *types.Signature {
	taken := names{}
	params := w.tuple(depth, "parameters", taken)
	variadic := len(params) > 0 && w.maybe("is variadic")
	if variadic {
		last := params[len(params)-1]
		params[len(params)-1] = types.NewParam(token.NoPos, w.p, last.Name(), types.NewSlice(last.Type()))
	}
	return types.NewSignatureType(nil, nil, nil, types.NewTuple(params...), types.NewTuple(w.tuple(depth, "results", taken)...), variadic)
}

// tuple draws parameters or results, with names for all of them or for none.
func (w *world) tuple(depth int, what string, taken names) []*types.Var {
	var vars []*types.Var
	named := w.maybe(what + " have names")
	for range w.pick(4, what) {
		name := ""
		if named {
			name = rapid.SampledFrom([]string{"_", "util", "string", "nil", "error", "p", "S"}).Draw(w.t, "name")
			if taken.has(name) {
				name = w.name()
			}
			if name != "_" {
				taken.add(name)
			}
		}
		vars = append(vars, types.NewParam(token.NoPos, w.p, name, w.typ(depth)))
	}
	return vars
}

func (w *world) structure(depth int) *types.Struct {
	var fields []*types.Var
	var tags []string
	has := names{}
	for range w.pick(4, "fields") {
		tag := rapid.SampledFrom([]string{"", "", "json:\"a\"", "back`quote", "\x00\n\\"}).Draw(w.t, "tag")
		if name, t := w.embeddable(depth); t != nil && !has.has(name) && w.maybe("is embedded") {
			has.add(name)
			fields, tags = append(fields, types.NewField(token.NoPos, w.p, name, t, true)), append(tags, tag)
			continue
		}
		name := rapid.SampledFrom([]string{"_", w.name(), "X" + w.name(), "string"}).Draw(w.t, "field")
		if has.has(name) && name != "_" {
			name = w.name()
		}
		has.add(name)
		fields, tags = append(fields, types.NewField(token.NoPos, w.p, name, w.typ(depth), false)), append(tags, tag)
	}
	return types.NewStruct(fields, tags)
}

// embeddable draws a type that a struct of p may embed, and the field's name; nil if what it draws cannot be embedded.
func (w *world) embeddable(depth int) (string, types.Type) {
	var t types.Type
	switch w.pick(3, "embedded") {
	case 0:
		name := rapid.SampledFrom([]string{"any", "error", "byte", "int32"}).Draw(w.t, "predeclared")
		if w.hidden.has(name) {
			return "", nil
		}
		return name, types.Universe.Lookup(name).Type()
	case 1:
		t = w.plain[w.pick(len(w.plain), "named")]
	case 2:
		t = w.instance(depth)
	}
	var obj *types.TypeName
	switch t := t.(type) {
	case *types.Named:
		obj = t.Obj()
	case *types.Alias:
		obj = t.Obj()
	}
	if !(&typePrinter{pkg: w.p}).canName(obj) {
		return "", nil
	}
	switch t.Underlying().(type) {
	case *types.Interface:
		return obj.Name(), t
	case *types.Pointer:
		return "", nil
	}
	if w.maybe("embeds a pointer") {
		return obj.Name(), types.NewPointer(t)
	}
	return obj.Name(), t
}

// iface draws an interface that has values.
func (w *world) iface(depth int) *types.Interface {
	return w.interfaceWith(depth, nil)
}

func (w *world) interfaceWith(depth int, embedded []types.Type) *types.Interface {
	var methods []*types.Func
	for range w.pick(3, "methods") {
		name := w.name()
		if w.maybe("is exported") {
			name = "X" + name
		}
		methods = append(methods, types.NewFunc(token.NoPos, w.p, name, w.signature(depth)))
	}
	for range w.pick(3, "embedded interfaces") {
		switch w.pick(3, "embedded interface") {
		case 0:
			embedded = append(embedded, types.Universe.Lookup("error").Type())
		case 1:
			if t := w.plain[w.pick(len(w.plain), "embedded")]; types.IsInterface(t) {
				embedded = append(embedded, t)
			}
		case 2:
			if depth > 0 {
				embedded = append(embedded, w.iface(depth-1))
			}
		}
	}
	return types.NewInterfaceType(methods, embedded).Complete()
}

// constraint draws what may constrain a type parameter.
func (w *world) constraint(depth int) types.Type {
	switch w.pick(5, "constraint") {
	case 0:
		return types.Universe.Lookup("any").Type()
	case 1:
		return types.Universe.Lookup("comparable").Type()
	case 2:
		t := types.NewInterfaceType(nil, []types.Type{w.union(depth)})
		t.MarkImplicit()
		return t.Complete()
	case 3:
		embedded := []types.Type{w.union(depth)}
		terms := termsOf(types.NewInterfaceType(nil, embedded))
		if !slices.ContainsFunc(terms, func(t types.Type) bool { return !types.Comparable(t) }) && w.maybe("is comparable") {
			embedded = append(embedded, types.Universe.Lookup("comparable").Type())
		}
		return w.interfaceWith(depth, embedded)
	}
	return w.iface(depth)
}

// union draws terms that do not overlap, or one type.
func (w *world) union(depth int) types.Type {
	var terms []*types.Term
	for range 1 + w.pick(3, "terms") {
		t := w.typ(depth)
		if _, param := types.Unalias(t).(*types.TypeParam); param || types.IsInterface(t) {
			continue
		}
		if slices.ContainsFunc(terms, func(term *types.Term) bool { return types.Identical(term.Type().Underlying(), t.Underlying()) }) {
			continue
		}
		tilde := types.Identical(t, t.Underlying()) && w.maybe("has a tilde")
		terms = append(terms, types.NewTerm(tilde, t))
	}
	if len(terms) == 0 {
		terms = append(terms, types.NewTerm(true, types.Typ[types.Int]))
	}
	if len(terms) == 1 && !terms[0].Tilde() {
		return terms[0].Type()
	}
	return types.NewUnion(terms)
}

// function draws a signature with type parameters.
func (w *world) function() *types.Signature {
	var params []*types.TypeParam
	for range w.pick(4, "type parameters") {
		name := rapid.SampledFrom([]string{"_", "T", "error", "string", "util", "S", "any", "context"}).Draw(w.t, "type parameter")
		params = append(params, w.param(name, types.Universe.Lookup("any").Type()))
	}
	w.params = params
	for _, param := range params {
		param.SetConstraint(w.constraint(2))
	}
	variables := []*types.Var{types.NewParam(token.NoPos, w.p, "", w.typ(4)), types.NewParam(token.NoPos, w.p, "", w.typ(3))}
	return types.NewSignatureType(nil, nil, params, types.NewTuple(variables...), nil, false)
}
