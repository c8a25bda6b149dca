package gen

import "go/types"

// invalid reports whether t has a part that could not be found out.
func invalid(t types.Type) bool {
	switch t := t.(type) {
	case *types.Basic:
		return t.Kind() == types.Invalid
	case *types.Alias:
		return invalid(types.Unalias(t)) || invalidAny(t.TypeArgs().Types())
	case *types.Named:
		return invalidAny(t.TypeArgs().Types()) || invalidBasic(t.Underlying())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels, maps
		m, ok := t.(*types.Map)
		return invalid(t.Elem()) || ok && invalid(m.Key())
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				if invalid(v.Type()) {
					return true
				}
			}
		}
	case *types.Struct:
		for f := range t.Fields() {
			if invalid(f.Type()) {
				return true
			}
		}
	}
	return false
}

func invalidBasic(t types.Type) bool {
	basic, ok := t.(*types.Basic)
	return ok && basic.Kind() == types.Invalid
}

func invalidAny(seq func(func(types.Type) bool)) bool {
	for t := range seq {
		if invalid(t) {
			return true
		}
	}
	return false
}
