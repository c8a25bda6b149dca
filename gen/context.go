package gen

import "go/types"

// carriage says how a method's parameter has the context of the call.
type carriage uint8

const (
	noContext   carriage = iota
	isContext            // it is one
	byValue              // it has Context() context.Context
	inPointer            // it has, and may be a nil pointer
	inInterface          // it has, and may be a nil interface
	inSlice              // it is a list of contexts, or variadic
)

// contextParam returns the index of the parameter that the identity is taken from, and how it has the context; -1 if there is
// none. The first parameter that is a context.Context comes before all others, then the first that has a method
// Context() context.Context, such as an *http.Request or a stream, then the first that is a list of contexts.
func (u *unit) contextParam(sig *types.Signature) (int, carriage) {
	obj := u.imports.context()
	if obj == nil {
		return -1, noContext
	}
	iface := obj.Type().Underlying().(*types.Interface)
	for _, look := range []func(types.Type) carriage{
		func(t types.Type) carriage { return either(types.Implements(t, iface), isContext) },
		func(t types.Type) carriage { return carrierOf(t, obj.Type(), u.types) },
		func(t types.Type) carriage {
			list, ok := t.Underlying().(*types.Slice)
			return either(ok && types.Implements(list.Elem(), iface), inSlice)
		},
	} {
		for i := range sig.Params().Len() {
			if c := look(sig.Params().At(i).Type()); c != noContext {
				return i, c
			}
		}
	}
	return -1, noContext
}

// either returns c if a parameter does have a context in that way.
func either(does bool, c carriage) carriage {
	if does {
		return c
	}
	return noContext
}

// carrierOf returns how a value of type t has a method Context() context.Context.
func carrierOf(t, ctx types.Type, pkg *types.Package) carriage {
	method := types.NewMethodSet(t).Lookup(pkg, "Context")
	if method == nil {
		return noContext
	}
	sig, ok := method.Type().(*types.Signature)
	if !ok || sig.Params().Len() != 0 || sig.Results().Len() != 1 || !types.Identical(sig.Results().At(0).Type(), ctx) {
		return noContext
	}
	switch t.Underlying().(type) {
	case *types.Pointer:
		return inPointer
	case *types.Interface: // a type parameter's is its constraint
		return inInterface
	}
	return byValue
}

// contextArg returns the context of a call as the wrapper's method has it.
func (w *writer) contextArg(m *method, n *methodNames) string {
	if m.ctx < 0 {
		return w.qualify("context", "context") + ".Background()"
	}
	param, runtime := n.params[m.ctx], w.qualify(runtimePath, "ratelimit")
	switch m.carried {
	case byValue:
		return param + ".Context()"
	case inPointer:
		return runtime + ".ContextOf(" + param + ")"
	case inInterface:
		return runtime + ".ContextIn(" + param + ")"
	case inSlice:
		return runtime + ".FirstContext(" + param + ")"
	}
	return param
}

// context returns the type context.Context, nil if nothing that was loaded imports its package.
func (imp *importer) context() *types.TypeName {
	pkg := imp.given["context"]
	if p := imp.byPath["context"]; p != nil {
		pkg, _ = imp.load(p)
	}
	if pkg == nil {
		return nil
	}
	obj, ok := pkg.Scope().Lookup("Context").(*types.TypeName)
	if !ok || !types.IsInterface(obj.Type()) {
		return nil
	}
	return obj
}
