package gen

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// variesFrom reports whether the file that declares obj is left out of some build that has src, so that there obj is
// another, or none.
func (u *unit) variesFrom(src *source, obj types.Object) bool {
	return !implies(src.buildExprs(), u.buildExprs(obj))
}

// buildExprs returns what must hold where the file that declares obj is built.
func (u *unit) buildExprs(obj types.Object) []constraint.Expr {
	if obj.Pkg() == u.types {
		if src := u.source(obj.Pos()); src != nil {
			return src.buildExprs()
		}
		return nil // of a stub
	}
	path := u.imports.foreignPosition(obj.Pos()).Filename
	if path == "" {
		return nil // of Go itself
	}
	exprs, known := u.imports.builds[path]
	if !known {
		exprs = readBuildExprs(path)
		u.imports.builds[path] = exprs
	}
	return exprs
}

// readBuildExprs is buildExprs of another package's file, of which only the name counts where it cannot be read.
func readBuildExprs(path string) []constraint.Expr {
	text, err := os.ReadFile(path)
	if err == nil {
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly|parser.ParseComments)
		if err == nil {
			return (&source{path: path, ast: file}).buildExprs()
		}
	}
	_, suffix := splitName(filepath.Base(path))
	return nameConstraint(suffix)
}

// buildExprs returns what must hold where the file is built, nothing if it is built everywhere.
func (s *source) buildExprs() []constraint.Expr {
	suffix, line := s.platform()
	exprs := nameConstraint(suffix)
	if line != "" {
		if expr, err := constraint.Parse(line); err == nil {
			exprs = append(exprs, expr)
		}
	}
	return exprs
}

// implies reports whether every platform that meets one list of constraints meets the other.
func implies(these, those []constraint.Expr) bool {
	if len(those) == 0 {
		return true
	}
	for _, p := range (&loader{}).candidates(slices.Concat(these, those)) {
		tags := strings.Split(p.tags, ",")
		has := func(tag string) bool { return p.has(tag) || slices.Contains(tags, tag) }
		if met(these, has) && !met(those, has) {
			return false
		}
	}
	return true
}

func met(exprs []constraint.Expr, has func(tag string) bool) bool {
	return !slices.ContainsFunc(exprs, func(e constraint.Expr) bool { return !e.Eval(has) })
}

// variants returns the outermost types that t has embedded, at any depth, and that vary: the wrapper embeds them, for
// methods that only some builds have. What cannot be named stands for what embeds it.
func (s *service) variants(t types.Type) []types.Type {
	iface, ok := t.Underlying().(*types.Interface)
	if !ok {
		return nil
	}
	var list []types.Type
	for embedded := range iface.EmbeddedTypes() {
		found := s.variants(embedded)
		if obj := declarationOf(embedded); obj != nil && s.unit.variesFrom(s.src, obj) {
			found = []types.Type{embedded}
		}
		for _, variant := range found {
			if !s.unit.canWrite(variant) {
				return []types.Type{t}
			}
			list = append(list, variant)
		}
	}
	return list
}

// sealVariants leaves what only some builds have to what is embedded, but for methods that are limited.
func (s *service) sealVariants() {
	variants := s.variants(s.obj.Type())
	if len(variants) > 1 { // of which two may have one method
		variants = []types.Type{s.obj.Type()}
	}
	for _, t := range variants {
		s.seals = append(s.seals, &seal{typ: t, varies: true})
	}
	s.methods = slices.DeleteFunc(s.methods, func(m *method) bool {
		varies := !s.steady(s.obj.Type(), m.fn)
		m.varies = varies
		return varies && len(m.limits) == 0
	})
}

// steady reports whether an interface has the method in every build that has the service.
func (s *service) steady(t types.Type, fn *types.Func) bool {
	if obj := declarationOf(t); obj != nil && obj != s.obj && s.unit.variesFrom(s.src, obj) {
		return false
	}
	iface, ok := t.Underlying().(*types.Interface)
	if !ok {
		return true
	}
	for explicit := range iface.ExplicitMethods() {
		if explicit.Id() == fn.Id() {
			return !s.unit.variesFrom(s.src, explicit)
		}
	}
	for embedded := range iface.EmbeddedTypes() {
		if has(embedded, fn) && s.steady(embedded, fn) {
			return true
		}
	}
	return false
}

// steadyPromoted reports whether a concrete type has a method from what it embeds in every build that has the type.
func (s *service) steadyPromoted(sel *types.Selection) bool {
	t := s.obj.Type()
	for _, i := range sel.Index()[:len(sel.Index())-1] {
		if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
			t = ptr.Elem()
		}
		t = t.Underlying().(*types.Struct).Field(i).Type()
		named := t
		if ptr, ok := t.(*types.Pointer); ok {
			named = ptr.Elem()
		}
		if obj := declarationOf(named); obj != nil && s.unit.variesFrom(s.src, obj) {
			return false
		}
	}
	fn := sel.Obj().(*types.Func)
	return !s.unit.variesFrom(s.src, fn) && (!types.IsInterface(t) || s.steady(t, fn))
}

// checkVariants reports limited methods that vary, where the units of some platform do not have the same.
func checkVariants(services []*service) {
	for _, s := range services {
		for _, m := range s.methods {
			if m.varies && len(m.limits) > 0 && !s.unit.alone && !m.onAll() {
				m.refuseVariant()
			}
		}
	}
}

// onAll reports whether the service has the method with the same limits on all platforms that are known, of which there
// are none where another package declares it.
func (m *method) onAll() bool {
	s := m.service
	if m.fn.Pkg() != s.unit.types {
		return false
	}
	for _, u := range s.unit.siblings {
		other := s.onPlatform(u)
		if other != nil && !slices.ContainsFunc(other.methods, func(like *method) bool {
			return like.fn.Name() == m.fn.Name() && like.limitsText() == m.limitsText() && typeText(like.sig) == typeText(m.sig)
		}) {
			return false
		}
	}
	return true
}

// refuseVariant reports a limited method that a wrapper for all builds cannot have.
func (m *method) refuseVariant() {
	s := m.service
	pos, mend := s.spec.Name.Pos(), fmt.Sprintf("declare it on %s itself, in each file that is for one of them", s.name())
	if s.iface != nil {
		pos, mend = s.embedding(m.fn), fmt.Sprintf("declare it in %s with directives of its own", s.name())
	}
	s.unit.errorf(pos, "%s has the limited %s from %s, and not so in other builds, want it with the same limits wherever %[1]s is; %[4]s",
		s.name(), m.fn.Name(), filepath.Base(s.unit.position(m.fn.Pos()).Filename), mend)
}

// limitedElsewhere returns the names of the directory's types that have directives which may hold for methods in files
// without any: of those types themselves, and of what they embed.
func limitedElsewhere(d *directory, units []*unit) names {
	n := names{}
	for _, u := range units {
		if u.dir != d {
			continue
		}
		for _, src := range u.sources {
			if mentions(src.text) {
				for _, spec := range limitedTypes(src.ast) {
					u.addEmbedded(n, spec)
				}
			}
		}
	}
	return n
}

// limitedTypes returns the types of a file that have directives themselves, or in them.
func limitedTypes(f *ast.File) []*ast.TypeSpec {
	var list []*ast.TypeSpec
	for group, o := range ownersOf(f) {
		if o.typ == nil {
			continue
		}
		if slices.ContainsFunc(group.List, func(c *ast.Comment) bool { exact, _ := rules.Match(c.Text); return exact }) {
			list = append(list, o.typ)
		}
	}
	return list
}

// addEmbedded adds a type's name and those of what it embeds.
func (u *unit) addEmbedded(n names, spec *ast.TypeSpec) {
	if n.has(spec.Name.Name) {
		return
	}
	n.add(spec.Name.Name)
	var fields *ast.FieldList
	switch t := ast.Unparen(spec.Type).(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	case *ast.Ident:
		fields = &ast.FieldList{List: []*ast.Field{{Type: t}}}
	default:
		return
	}
	for _, field := range fields.List {
		name := baseName(field.Type)
		if len(field.Names) > 0 || name == "" {
			continue
		}
		if inner := u.findType(name); inner != nil {
			u.addEmbedded(n, inner)
		}
		n.add(name)
	}
}

// hasMethodsElsewhere reports whether any file declares a method of a concrete type, or of what it embeds.
func (s *service) hasMethodsElsewhere() bool {
	own := names{}
	s.unit.addEmbedded(own, s.spec)
	for _, u := range append([]*unit{s.unit}, s.unit.siblings...) {
		for _, src := range u.sources {
			if src.ast.Name.Name == u.pkg.Name && hasMethodOf(src.ast, own) {
				return true
			}
		}
	}
	return false
}

// hasMethodOf reports whether a file declares a method of one of the types.
func hasMethodOf(f *ast.File, types names) bool {
	return slices.ContainsFunc(f.Decls, func(decl ast.Decl) bool {
		fn, ok := decl.(*ast.FuncDecl)
		return ok && fn.Recv != nil && types.has(receiverName(fn))
	})
}

// declaresOf reports whether a file declares one of the types, or a method of one.
func declaresOf(f *ast.File, types names) bool {
	return hasMethodOf(f, types) || slices.ContainsFunc(f.Decls, func(decl ast.Decl) bool {
		_, fn := decl.(*ast.FuncDecl)
		return !fn && slices.ContainsFunc(declaredBy(decl), func(id *ast.Ident) bool { return types.has(id.Name) })
	})
}
