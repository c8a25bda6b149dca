package gen

import (
	"go/ast"
	"go/constant"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// form is how a value becomes an id.
type form uint8

const (
	noText form = iota
	asIs
	asText
	asInt
	asBool
	byStringer
	byPointer // a pointer that may be nil, with String
	byInterface
)

// checkBy reports an id of a type that has no stable text.
func (m *method) checkBy(l *limit) {
	form := l.by.form(m.service.unit.types)
	name := m.typeString(l.by.typ)
	switch {
	case isTuple(l.by.typ):
		m.refuse(l, "by", "by=%s has %d values, want one; put it into a function that returns the id alone", l.By, l.by.typ.(*types.Tuple).Len())
	case l.by.isRune():
		m.refuse(l, "by", "by=%s is the character with that number, want its digits; write the integer itself, or strconv.Itoa", l.By)
	case form == noText:
		m.refuse(l, "by", "by=%s has type %s, which has no stable text, want a string, []byte, integer, bool or a type with String() string%s", l.By, name, hintBy(l.by.typ, l.By))
	case m.idVaries(l.by.typ):
		m.refuse(l, "by", "by=%s has type %s, which is declared in %s and may be another in other builds, want a type that is one wherever %s is; write a conversion or a call that makes a string of it",
			l.By, name, filepath.Base(m.service.unit.position(declarationOf(l.by.typ).Pos()).Filename), m.service.name())
	case tooLarge(l.by):
		m.refuse(l, "by", "by=%s is too large, want an integer of 64 bits", l.By)
	case l.Whose() == rules.IP && form != asIs && form != asText && form != byStringer && form != byPointer && form != byInterface:
		m.refuse(l, "by", "by=%s has type %s, want an address: a string, net.IP or netip.Addr", l.By, name)
	}
}

func isTuple(t types.Type) bool {
	_, ok := t.(*types.Tuple)
	return ok
}

// isRune reports whether e converts an integer to a string, which is the character that has this
// number. A rune or a byte is a character already.
func (e *expression) isRune() bool {
	call, ok := ast.Unparen(e.expr).(*ast.CallExpr)
	if !ok || len(call.Args) != 1 || !e.info.Types[call.Fun].IsType() || !isKind(e.typ, types.IsString) {
		return false
	}
	from := e.info.Types[call.Args[0]].Type
	basic, _ := from.Underlying().(*types.Basic)
	return isKind(from, types.IsInteger) && (basic == nil || basic.Kind() != types.Int32 && basic.Kind() != types.Uint8)
}

// idVaries reports whether an id's type is another in some builds that have the method's wrapper.
func (m *method) idVaries(t types.Type) bool {
	obj := declarationOf(t)
	return obj != nil && m.src != nil && m.service.unit.variesFrom(m.src, obj)
}

// tooLarge reports whether the expression is a constant that no type of integers has.
func tooLarge(e *expression) bool {
	value := e.info.Types[e.expr].Value
	if value == nil || value.Kind() != constant.Int {
		return false
	}
	_, signed := constant.Int64Val(value)
	return !signed && types.Identical(e.typ, types.Typ[types.UntypedInt])
}

// hintBy says what to write in place of an id that has no text.
func hintBy(t types.Type, text string) string {
	if isTime(t) {
		return "; write by=" + text + ".Unix() for its second"
	}
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		t = ptr.Elem()
		if _, basic := t.Underlying().(*types.Basic); basic {
			return "; write by=*" + text + " if it is never nil, else a function that returns \"\" for nil"
		}
	}
	if s, ok := t.Underlying().(*types.Struct); ok {
		for f := range s.Fields() {
			if b, ok := f.Type().Underlying().(*types.Basic); ok && b.Info()&(types.IsString|types.IsInteger) != 0 && f.Exported() && strings.HasSuffix(f.Name(), "ID") {
				return "; write the field that tells callers apart, such as by=" + text + "." + f.Name()
			}
		}
		return "; write the field that tells callers apart, by=" + text + ".<field>"
	}
	if sig, ok := t.Underlying().(*types.Signature); ok {
		if sig.Params().Len() == 0 && sig.Results().Len() == 1 {
			return "; call it: by=" + text + "()"
		}
		return "; call it"
	}
	if param, ok := types.Unalias(t).(*types.TypeParam); ok {
		return "; let " + param.Obj().Name() + " be constrained to types whose text is made in one way, such as ~string or ~int | ~int64, or count by something else"
	}
	if _, ok := t.Underlying().(*types.Interface); ok {
		return "; write what tells callers apart, such as a method of it that returns a string"
	}
	if slice, ok := t.Underlying().(*types.Slice); ok && types.Identical(slice.Elem(), types.Typ[types.String]) {
		return "; write by=strings.Join(" + text + `,",") to count by all of them`
	}
	if isKind(t, types.IsFloat) {
		return "; write by=int64(" + text + ") to count by its whole part"
	}
	return ""
}

// form returns how the value is made an id.
func (e *expression) form(pkg *types.Package) form {
	t := e.typ
	if isKind(t, types.IsString) {
		if types.Identical(t, types.Typ[types.String]) || types.Identical(t, types.Typ[types.UntypedString]) {
			return asIs
		}
		return asText
	}
	if isTime(t) {
		return noText
	}
	if _, pointer := t.Underlying().(*types.Pointer); pointer && stringer(t, false, pkg) {
		return byPointer
	}
	if types.IsInterface(t) && stringer(t, false, pkg) { // a type parameter's is its constraint
		return byInterface
	}
	if stringer(t, e.info.Types[e.expr].Addressable(), pkg) {
		return byStringer
	}
	switch {
	case isBytes(t):
		return asText
	case isKind(t, types.IsInteger):
		return asInt
	case isKind(t, types.IsBoolean):
		return asBool
	}
	return noText
}

// untyped reports whether e is a constant without a type of its own.
func (e *expression) untyped() bool {
	basic, ok := e.typ.(*types.Basic)
	return ok && basic.Info()&types.IsUntyped != 0
}

func isTime(t types.Type) bool {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time" && named.Obj().Name() == "Time"
}

func isBytes(t types.Type) bool {
	slice, ok := t.Underlying().(*types.Slice)
	return ok && types.Identical(slice.Elem().Underlying(), types.Typ[types.Uint8])
}

// isKind reports whether t, or every type that a type parameter may be, is a basic type of the kind.
func isKind(t types.Type, kind types.BasicInfo) bool {
	if param, ok := types.Unalias(t).(*types.TypeParam); ok {
		terms := termsOf(param.Constraint().Underlying().(*types.Interface))
		return len(terms) > 0 && !slices.ContainsFunc(terms, func(t types.Type) bool { return !isKind(t, kind) })
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&kind != 0
}

// termsOf returns the types that an interface's only union lists, nil if it has none or several.
func termsOf(iface *types.Interface) []types.Type {
	var terms []types.Type
	for embedded := range iface.EmbeddedTypes() {
		switch t := embedded.(type) {
		case *types.Union:
			if terms != nil {
				return nil
			}
			for i := range t.Len() {
				terms = append(terms, t.Term(i).Type())
			}
		default:
			if inner, ok := t.Underlying().(*types.Interface); ok {
				terms = append(terms, termsOf(inner)...)
			} else {
				terms = append(terms, t)
			}
		}
	}
	return terms
}

// stringer reports whether a value of type t has the method String() string.
func stringer(t types.Type, addressable bool, pkg *types.Package) bool {
	method := types.NewMethodSet(t).Lookup(pkg, "String")
	if method == nil && addressable {
		method = types.NewMethodSet(types.NewPointer(t)).Lookup(pkg, "String")
	}
	if method == nil {
		return false
	}
	sig, ok := method.Type().(*types.Signature)
	return ok && sig.Params().Len() == 0 && sig.Results().Len() == 1 &&
		types.Identical(sig.Results().At(0).Type(), types.Typ[types.String])
}
