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

// streams reports whether a value of type t is not all there when a method returns it: what is read on, or a list or a struct with an exported field of that.
func streams(t types.Type) bool {
	if readsOn(t) {
		return true
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		return readsOn(u.Elem())
	case *types.Array:
		return readsOn(u.Elem())
	case *types.Map:
		return readsOn(u.Elem())
	case *types.Pointer:
		return hasBody(u.Elem())
	}
	return hasBody(t)
}

// readsOn reports whether a value of type t is read on itself: a channel, an iterator, a reader of what is not in memory, what has Recv, rows, a cursor.
func readsOn(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Chan:
		return u.Dir() != types.SendOnly
	case *types.Signature:
		return iterates(u)
	}
	return reads(t) && !isNamed(t, "bytes", "Buffer") && !isNamed(t, "bytes", "Reader") && !isNamed(t, "strings", "Reader") ||
		hasMethod(t, "Recv", 0, 2) || isNamed(t, "database/sql", "Row") || isNamed(t, "bufio", "Scanner") || advances(t)
}

// hasBody reports whether t is a struct with an exported field that is read and closed, as http.Response is.
func hasBody(t types.Type) bool {
	u, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for field := range u.Fields() {
		if field.Exported() && readsOn(field.Type()) && reads(field.Type()) && methodOf(field.Type(), "Close") != nil {
			return true
		}
	}
	return false
}

// reads reports whether t has the method of io.Reader.
func reads(t types.Type) bool {
	sig := methodOf(t, "Read")
	if sig == nil || sig.Params().Len() != 1 || sig.Results().Len() != 2 {
		return false
	}
	return types.Identical(sig.Params().At(0).Type(), types.NewSlice(types.Typ[types.Byte])) &&
		types.Identical(sig.Results().At(0).Type(), types.Typ[types.Int]) &&
		types.Identical(sig.Results().At(1).Type(), types.Universe.Lookup("error").Type())
}

// advances reports whether t has Next and Close, as rows and cursors have: without a parameter, or with a context.
func advances(t types.Type) bool {
	next, end := methodOf(t, "Next"), methodOf(t, "Close")
	return next != nil && end != nil && next.Results().Len() == 1 && end.Results().Len() <= 1 && onlyContext(next) && onlyContext(end)
}

// onlyContext reports whether a method has no parameter but perhaps a context.
func onlyContext(sig *types.Signature) bool {
	return sig.Params().Len() == 0 || sig.Params().Len() == 1 && isNamed(sig.Params().At(0).Type(), "context", "Context")
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
	sig := methodOf(t, name)
	return sig != nil && sig.Params().Len() == params && sig.Results().Len() == results
}

// methodOf is the signature of an exported method of t, nil if it has none of that name.
func methodOf(t types.Type, name string) *types.Signature {
	found, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
	if fn, ok := found.(*types.Func); ok {
		return fn.Signature()
	}
	return nil
}

// isNamed reports whether t is a type of a package, or a pointer to it.
func isNamed(t types.Type, pkg, name string) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == name && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == pkg
}
