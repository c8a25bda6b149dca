package gen

import "go/types"

// stream returns the type of the first result that its caller reads on after the method has returned; nil if there is none.
func (m *method) stream() types.Type {
	for result := range m.sig.Results().Variables() {
		if streams(result.Type()) {
			return result.Type()
		}
	}
	return nil
}

// streams reports whether a value of type t is not all there when a method returns it: a channel, an iterator, what has Read or Recv, rows, a response.
func streams(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Chan:
		return u.Dir() != types.SendOnly
	case *types.Signature:
		return iterates(u)
	}
	return isNamed(t, "net/http", "Response") || hasMethod(t, "Read", 1, 2) || hasMethod(t, "Recv", 0, 2) ||
		hasMethod(t, "Next", 0, 1) && hasMethod(t, "Close", 0, 1)
}

// iterates reports whether a func is an iterator, as iter.Seq is.
func iterates(sig *types.Signature) bool {
	if sig.Params().Len() != 1 || sig.Results().Len() != 0 {
		return false
	}
	yield, ok := sig.Params().At(0).Type().Underlying().(*types.Signature)
	if !ok || yield.Results().Len() != 1 {
		return false
	}
	b, ok := yield.Results().At(0).Type().Underlying().(*types.Basic)
	return ok && b.Kind() == types.Bool
}

// hasMethod reports whether t has an exported method of so many parameters and results.
func hasMethod(t types.Type, name string, params, results int) bool {
	found, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
	fn, ok := found.(*types.Func)
	return ok && fn.Signature().Params().Len() == params && fn.Signature().Results().Len() == results
}

// isNamed reports whether t is a type of a package, or a pointer to it.
func isNamed(t types.Type, pkg, name string) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == name && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == pkg
}
