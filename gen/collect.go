package gen

import (
	"bytes"
	"errors"
	"go/ast"
	"go/token"
	"regexp"

	"github.com/rlgen/rlgen/rules"
)

// directive is one directive line and where it stands.
type directive struct {
	rules.Directive
	src  *source
	pos  token.Pos // of the comment
	text string    // of the comment
}

// column returns the place of the named option's value, or of the directive where it has none.
func (d *directive) column(option string) token.Pos {
	if col := d.Columns[option]; col > 0 {
		return d.pos + token.Pos(col-1)
	}
	return d.pos
}

// at returns the place of the byte at offset in the named option's value, which quotes and escapes may push apart.
func (d *directive) at(option string, offset int) token.Pos {
	if col := rules.Column(d.text, option, offset); col > 0 {
		return d.pos + token.Pos(col-1)
	}
	return d.column(option)
}

// owner is what a doc comment documents. What cannot carry a directive has neither typ nor method, and what says
// what it is.
type owner struct {
	typ    *ast.TypeSpec // of a type, or of the interface that has the method
	method string
	recv   *ast.FuncDecl // of a method of a concrete type
	name   *ast.Ident

	what string
	mend string     // empty where want says it all
	next *ast.Ident // what a detached comment stands above
}

// collect reads every comment of the unit and hangs its directives on the services that they stand on.
func (u *unit) collect() {
	for _, s := range u.sources {
		owners := ownersOf(s.ast)
		for _, group := range s.ast.Comments {
			for _, c := range group.List {
				if d := u.read(s, c); d != nil {
					u.attach(d, owners[group])
				}
			}
		}
	}
}

// read returns the directive that the comment is, nil if it is none or has an error.
func (u *unit) read(s *source, c *ast.Comment) *directive {
	exact, near := rules.Match(c.Text)
	if near != nil {
		u.errorf(c.Pos()+token.Pos(near.Column-1), "%s", near.Msg).Mend = u.mendComment(c, near)
		return nil
	}
	if !exact {
		return nil
	}
	parsed, err := rules.Parse(c.Text)
	if err != nil {
		var list rules.Errors
		errors.As(err, &list)
		for _, e := range list {
			u.errorf(c.Pos()+token.Pos(e.Column-1), "%s", e.Msg).Mend = u.mendComment(c, e)
		}
		return nil
	}
	return &directive{Directive: parsed, src: s, pos: c.Pos(), text: c.Text}
}

// attach hangs d on its owner, or reports that it has none.
func (u *unit) attach(d *directive, o owner) {
	switch {
	case d.src.excluded: // what compiles the file attaches it
	case o.typ == nil && o.recv == nil:
		u.orphan(d, o)
	case o.recv != nil:
		u.attachMethod(d, o)
	case o.typ.Name.Name == "_":
		u.errorf(d.pos, "directive on a type called _, which nothing can have, want it on a type with a name")
	default:
		u.service(o.typ).add(u, d, o.method, o.name)
	}
}

// attachMethod hangs d on the type that the method of a concrete type belongs to.
func (u *unit) attachMethod(d *directive, o owner) {
	spec := u.typeSpec(receiverName(o.recv))
	if spec == nil {
		u.errorf(d.pos, "directive on a method whose receiver's type this package does not declare, want it on a method of one of its types")
		return
	}
	u.service(spec).add(u, d, o.method, o.name)
}

// orphan reports a directive that stands on nothing that could be limited.
func (u *unit) orphan(d *directive, o owner) {
	if o.what == "" {
		o = surroundings(d)
	}
	mend := ""
	if o.mend != "" {
		mend = "; " + o.mend
	}
	u.errorf(d.pos, "directive %s, want it in the doc comment of a method or of a type%s", o.what, mend).Mend = d.moveTo(u, o.next)
}

// surroundings says where a comment stands that documents nothing.
func surroundings(d *directive) owner {
	for _, decl := range d.src.ast.Decls {
		if decl.Pos() <= d.pos && d.pos < decl.End() {
			return d.inside(decl)
		}
	}
	if prev := d.sameLine(); prev != "" {
		return owner{what: "behind " + prev + ", at the end of its line", mend: "put it above"}
	}
	switch next, last := nextName(d.src.ast, d.pos); {
	case d.pos < d.src.ast.Package:
		return owner{what: "above the package clause"}
	case d.behindCode():
		return behindCode
	case next != nil:
		return detached(next)
	case last:
		return owner{what: "behind the last declaration of the file"}
	}
	return owner{what: "on nothing", mend: "what follows is no method and no type"}
}

// behindCode is the owner of a comment that stands at the end of a line of code which has no place for it.
var behindCode = owner{what: "behind code, at the end of its line", mend: "put it above what it is for"}

var generalComment = regexp.MustCompile(`(?s)/\*.*?\*/`)

// behindCode reports whether code stands before the directive on its line.
func (d *directive) behindCode() bool {
	at := int(d.pos - d.src.ast.FileStart)
	start, _ := lineOf(d.src.text, at)
	before := generalComment.ReplaceAll(d.src.text[start:at], nil)
	return len(bytes.TrimSpace(bytes.TrimPrefix(before, []byte("\ufeff")))) > 0
}

// sameLine returns the name of the function or method whose end stands before the directive on its line.
func (d *directive) sameLine() string {
	for _, decl := range d.src.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.End() > d.pos || !fn.End().IsValid() {
			continue
		}
		between := d.src.text[fn.End()-d.src.ast.FileStart : d.pos-d.src.ast.FileStart]
		if !bytes.ContainsRune(between, '\n') {
			return fn.Name.Name
		}
	}
	return ""
}

func detached(next *ast.Ident) owner {
	return owner{what: "detached from " + next.Name + " by a blank line", mend: "delete the blank line", next: next}
}

// inside says where in a declaration a comment stands that documents none of its parts: before the name of a method
// or a type that follows, if one does.
func (d *directive) inside(decl ast.Decl) owner {
	var next *ast.Ident
	var within owner
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if n.Pos() > d.pos && next == nil {
				next = n.Name
			}
		case *ast.InterfaceType:
			if n.End() <= d.pos || d.pos < n.Pos() {
				return false
			}
			for _, field := range n.Methods.List {
				switch {
				case len(field.Names) == 0:
				case field.Pos() > d.pos && next == nil:
					next = field.Names[0]
				case field.Pos() <= d.pos && d.pos < field.End():
					within = inSignature(field.Names[0])
				}
			}
		case *ast.BlockStmt:
			if n.Pos() <= d.pos && d.pos < n.End() {
				within = owner{what: "inside a function body"}
			}
		case *ast.FuncDecl:
			within = inSignature(n.Name)
		}
		return true
	})
	gen, _ := decl.(*ast.GenDecl)
	switch {
	case within.what != "":
		return within
	case gen.Tok != token.TYPE:
		return owner{what: "inside a declaration of " + gen.Tok.String()}
	case d.behindCode():
		return behindCode
	case next == nil:
		return owner{what: "behind the last method or type of a declaration"}
	}
	return detached(next)
}

func inSignature(name *ast.Ident) owner {
	return owner{what: "inside the signature of " + name.Name, mend: "put it above"}
}

// nextName returns the name of the declaration that follows pos, nil if it is no method and no type, and whether it is
// none at all.
func nextName(f *ast.File, pos token.Pos) (name *ast.Ident, last bool) {
	for _, decl := range f.Decls {
		if decl.Pos() < pos {
			continue
		}
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			return decl.Name, false
		case *ast.GenDecl:
			if len(decl.Specs) == 0 {
				continue
			}
			if spec, ok := decl.Specs[0].(*ast.TypeSpec); ok {
				return spec.Name, false
			}
		}
		return nil, false
	}
	return nil, true
}

// receiverName returns the name of the type that a method's receiver has, empty if it has none.
func receiverName(fn *ast.FuncDecl) string {
	if len(fn.Recv.List) != 1 {
		return ""
	}
	return baseName(fn.Recv.List[0].Type)
}

// baseName returns the name of a type of the package that an expression is, or points to, or instantiates.
func baseName(t ast.Expr) string {
	for {
		switch x := t.(type) {
		case *ast.ParenExpr:
			t = x.X
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// typeSpec returns the declaration of a package-level type, through aliases of it.
func (u *unit) typeSpec(name string) *ast.TypeSpec {
	for range 10 {
		spec := u.findType(name)
		if spec == nil || !spec.Assign.IsValid() {
			return spec
		}
		id, ok := ast.Unparen(spec.Type).(*ast.Ident)
		if !ok {
			return spec
		}
		name = id.Name
	}
	return nil
}

func (u *unit) findType(name string) *ast.TypeSpec {
	for _, s := range u.sources {
		if s.excluded {
			continue
		}
		for _, decl := range s.ast.Decls {
			if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.TYPE {
				for _, spec := range decl.Specs {
					if spec := spec.(*ast.TypeSpec); spec.Name.Name == name {
						return spec
					}
				}
			}
		}
	}
	return nil
}

// ownersOf returns what each doc comment of the file documents.
func ownersOf(f *ast.File) map[*ast.CommentGroup]owner {
	owners := map[*ast.CommentGroup]owner{}
	set := func(group *ast.CommentGroup, o owner) {
		if _, known := owners[group]; group != nil && !known {
			owners[group] = o
		}
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				set(decl.Doc, owner{recv: decl, method: decl.Name.Name, name: decl.Name})
			} else {
				set(decl.Doc, owner{what: "on the function " + decl.Name.Name, mend: "only calls of methods pass a wrapper: make the function a method"})
			}
		case *ast.GenDecl:
			declOwners(decl, set)
		}
	}
	set(f.Doc, owner{what: "on the package clause"})
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.InterfaceType:
			for _, field := range n.Methods.List {
				set(field.Doc, owner{what: "in an interface that is no type of the package", mend: "declare the interface at package level, by a name"})
			}
		case *ast.Field:
			set(n.Doc, owner{what: "on a field"})
			set(n.Comment, owner{what: "behind a field or method, at the end of its line"})
		case *ast.ValueSpec:
			set(n.Doc, owner{what: "on a variable or constant"})
			set(n.Comment, owner{what: "behind a variable or constant"})
		case *ast.ImportSpec:
			set(n.Doc, owner{what: "on an import"})
			set(n.Comment, owner{what: "behind an import"})
		case *ast.TypeSpec:
			set(n.Doc, owner{what: "on a type inside a function"})
			set(n.Comment, owner{what: "behind a type, at the end of its line"})
		case *ast.GenDecl:
			set(n.Doc, owner{what: "on a declaration inside a function"})
		}
		return true
	})
	return owners
}

// declOwners sets the owners of a package-level declaration's comments.
func declOwners(decl *ast.GenDecl, set func(*ast.CommentGroup, owner)) {
	if decl.Tok != token.TYPE {
		set(decl.Doc, owner{what: "on a declaration of " + decl.Tok.String()})
		return
	}
	if decl.Lparen.IsValid() {
		set(decl.Doc, owner{what: "on a group of types", mend: "put it on each type that it is for"})
	}
	for _, spec := range decl.Specs {
		spec := spec.(*ast.TypeSpec)
		set(spec.Doc, owner{typ: spec, name: spec.Name})
		if !decl.Lparen.IsValid() {
			set(decl.Doc, owner{typ: spec, name: spec.Name})
		}
		iface, ok := ast.Unparen(spec.Type).(*ast.InterfaceType)
		if !ok {
			continue
		}
		for _, field := range iface.Methods.List {
			if len(field.Names) == 1 {
				set(field.Doc, owner{typ: spec, method: field.Names[0].Name, name: field.Names[0]})
			} else {
				set(field.Doc, owner{what: "on an embedded interface", mend: "put it on the methods there, or declare them here"})
			}
		}
	}
}
