package gen

import (
	"bytes"
	"go/ast"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rlgen/rlgen/rules"
)

// Mend is a change of the source that resolves a finding.
type Mend struct {
	// Message says what the change does, as an order: "Remove the blank".
	Message string
	Edits   []Edit
}

// Edit puts Text in place of the bytes from Start up to End of a file.
type Edit struct {
	Filename   string
	Start, End int
	Text       string
}

// edit returns an edit of what stands between two places of one file.
func (u *unit) edit(start, end token.Pos, text string) Edit {
	from, to := u.position(start), u.position(end)
	return Edit{Filename: from.Filename, Start: from.Offset, End: to.Offset, Text: text}
}

// mendComment returns the mend of a problem that package rules has with a comment, nil if it knows of none.
func (u *unit) mendComment(c *ast.Comment, e *rules.Error) *Mend {
	m, ok := rules.Mend(c.Text, e)
	src := u.source(c.Pos())
	if !ok || src == nil {
		return nil
	}
	line := u.lineAround(src, c)
	if (m.Above != "" || strings.HasPrefix(c.Text, "/*")) && !line.alone {
		return nil
	}
	mend := &Mend{Message: "Write " + strconv.Quote(strings.TrimSpace(m.Text))}
	switch {
	case m.Above != "":
		mend.Message = "Put it on a line of its own"
		mend.Edits = append(mend.Edits, line.above(m.Above))
	case m.Text == "":
		mend.Message = "Delete " + strconv.Quote(strings.TrimSpace(c.Text[m.Start:m.End]))
	}
	mend.Edits = append(mend.Edits, u.edit(c.Pos()+token.Pos(m.Start), c.Pos()+token.Pos(m.End), m.Text))
	return mend
}

// commentLine is the line that a comment stands on.
type commentLine struct {
	file   string
	start  int    // its offset
	indent string // before the comment
	alone  bool   // nothing else stands there
}

func (u *unit) lineAround(src *source, c *ast.Comment) commentLine {
	at, after := u.position(c.Pos()), u.position(c.End()).Offset
	start, end := lineOf(src.text, at.Offset)
	indent := string(src.text[start:at.Offset])
	alone := strings.TrimSpace(indent) == "" && after <= end && len(bytes.TrimSpace(src.text[after:end])) == 0
	return commentLine{file: at.Filename, start: start, indent: indent, alone: alone}
}

// above returns the edit that puts a comment before the line; prose is apart from the directives behind it.
func (l commentLine) above(text string) Edit {
	lines := l.indent + text + "\n"
	if !strings.HasPrefix(text, rules.Namespace) {
		lines += l.indent + "//\n"
	}
	return Edit{Filename: l.file, Start: l.start, End: l.start, Text: lines}
}

// mendWord returns the mend that writes another word at a place, nil if the source has not the word there, since it is
// written with escapes.
func (u *unit) mendWord(pos token.Pos, word, better string) *Mend {
	src := u.source(pos)
	at := u.position(pos).Offset
	if src == nil || better == "" || !bytes.HasPrefix(src.text[at:], []byte(word)) {
		return nil
	}
	return &Mend{
		Message: "Write " + better,
		Edits:   []Edit{u.edit(pos, pos+token.Pos(len(word)), better)},
	}
}

// dropLine returns the mend that deletes a directive's line.
func (d *directive) dropLine(u *unit) *Mend {
	return &Mend{Message: "Delete the directive", Edits: []Edit{d.line(u)}}
}

// line returns the edit that deletes the directive with its line, if nothing else stands there.
func (d *directive) line(u *unit) Edit {
	at := u.position(d.pos)
	start, end := lineOf(d.src.text, at.Offset)
	if len(bytes.TrimSpace(d.src.text[start:at.Offset])) > 0 {
		start = at.Offset
		end = len(bytes.TrimRight(d.src.text[:end], "\r\n"))
	}
	return Edit{Filename: at.Filename, Start: start, End: end}
}

// lineOf returns the bytes of the line that has an offset, its end included.
func lineOf(text []byte, offset int) (start, end int) {
	start = bytes.LastIndexByte(text[:offset], '\n') + 1
	end = len(text)
	if n := bytes.IndexByte(text[offset:], '\n'); n >= 0 {
		end = offset + n + 1
	}
	return start, end
}

// moveTo returns the mend that makes a directive part of the doc comment of what a name declares below it: it deletes
// the blank lines between, if nothing else stands there, or moves the directive.
func (d *directive) moveTo(u *unit, next *ast.Ident) *Mend {
	if next == nil || !carries(d.src.ast, next) {
		return nil
	}
	text := d.src.text
	from := u.position(groupOf(d).End())
	target, _ := lineOf(text, u.position(next.Pos()).Offset)
	_, end := lineOf(text, from.Offset)
	if end <= target && len(bytes.TrimSpace(text[from.Offset:target])) == 0 {
		return &Mend{
			Message: "Delete the blank line above " + next.Name,
			Edits:   []Edit{{Filename: from.Filename, Start: end, End: target}},
		}
	}
	indent := text[target : target+len(text[target:])-len(bytes.TrimLeft(text[target:], " \t"))]
	moved := string(indent) + rules.Namespace + strings.TrimPrefix(commentText(d), rules.Namespace) + "\n"
	if above := lineAbove(text, target); bytes.HasPrefix(above, []byte("//")) && !bytes.HasPrefix(above, []byte(rules.Namespace)) {
		moved = string(indent) + "//\n" + moved
	}
	return &Mend{
		Message: "Move the directive to " + next.Name,
		Edits:   []Edit{d.line(u), {Filename: from.Filename, Start: target, End: target, Text: moved}},
	}
}

// lineAbove returns the line before the one that begins at an offset, without blanks around it.
func lineAbove(text []byte, offset int) []byte {
	if offset == 0 {
		return nil
	}
	start, end := lineOf(text, offset-1)
	return bytes.TrimSpace(text[start:end])
}

// groupOf returns the comments that the directive stands among.
func groupOf(d *directive) *ast.CommentGroup {
	for _, group := range d.src.ast.Comments {
		if group.Pos() <= d.pos && d.pos < group.End() {
			return group
		}
	}
	return nil // never: the directive is one of them
}

// commentText returns the directive as it is written.
func commentText(d *directive) string {
	for _, c := range groupOf(d).List {
		if c.Pos() == d.pos {
			return strings.TrimRight(c.Text, "\r")
		}
	}
	return ""
}

// carries reports whether the name declares what can carry a directive: a type of the package, a method of an interface
// or of a concrete type.
func carries(f *ast.File, name *ast.Ident) bool {
	for _, o := range ownersOfNames(f) {
		if o.name == name {
			return o.typ != nil || o.recv != nil
		}
	}
	return false
}

// ownersOfNames returns what the file declares that can carry a directive, documented or not.
func ownersOfNames(f *ast.File) []owner {
	var list []owner
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				list = append(list, owner{recv: decl, name: decl.Name})
			}
		case *ast.GenDecl:
			if decl.Tok == token.TYPE {
				declOwnersOfNames(decl, &list)
			}
		}
	}
	return list
}

func declOwnersOfNames(decl *ast.GenDecl, list *[]owner) {
	for _, spec := range decl.Specs {
		spec := spec.(*ast.TypeSpec)
		*list = append(*list, owner{typ: spec, name: spec.Name})
		if iface, ok := ast.Unparen(spec.Type).(*ast.InterfaceType); ok {
			for _, field := range iface.Methods.List {
				if len(field.Names) == 1 {
					*list = append(*list, owner{typ: spec, name: field.Names[0]})
				}
			}
		}
	}
}

// addContext returns the mend that gives the method a context for its first parameter, nil if another file declares
// it.
func (m *method) addContext() *Mend {
	u := m.service.unit
	src := u.source(m.fn.Pos())
	if src == nil {
		return nil
	}
	fn := signatureAt(src.ast, m.fn.Pos())
	pkg, imported := contextName(src.ast)
	if fn == nil || pkg == "" {
		return nil
	}
	text := pkg + ".Context"
	taken := names{}
	named := fn.Params.NumFields() == 0
	for _, field := range fn.Params.List {
		for _, name := range field.Names {
			named = true
			taken.add(name.Name)
		}
	}
	if named {
		text = taken.take("ctx") + " " + text
	}
	if fn.Params.NumFields() > 0 {
		text += ", "
	}
	mend := &Mend{Message: "Add a context as first parameter"}
	if !imported {
		mend.Edits = append(mend.Edits, u.importContext(src))
	}
	at := fn.Params.Opening + 1
	mend.Edits = append(mend.Edits, u.edit(at, at, text))
	return mend
}

// signatureAt returns the signature of the method whose name stands at a place.
func signatureAt(f *ast.File, pos token.Pos) *ast.FuncType {
	var found *ast.FuncType
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Pos() == pos {
				found = n.Type
			}
		case *ast.Field:
			if fn, ok := n.Type.(*ast.FuncType); ok && len(n.Names) == 1 && n.Names[0].Pos() == pos {
				found = fn
			}
		}
		return found == nil
	})
	return found
}

// contextName returns the name by which a file imports, or can import, package context; empty if it can't.
func contextName(f *ast.File) (name string, imported bool) {
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		switch {
		case p != "context" && spec.Name == nil && filepath.Base(p) == "context", spec.Name != nil && spec.Name.Name == "context" && p != "context":
			return "", false
		case p != "context":
		case spec.Name == nil:
			return "context", true
		case spec.Name.Name != "_" && spec.Name.Name != ".":
			return spec.Name.Name, true
		}
	}
	return "context", false
}

// importContext returns the edit that imports package context.
func (u *unit) importContext(src *source) Edit {
	for _, decl := range src.ast.Decls {
		if decl, ok := decl.(*ast.GenDecl); ok && decl.Tok == token.IMPORT && decl.Lparen.IsValid() {
			return u.edit(decl.Lparen+1, decl.Lparen+1, "\n\t\"context\"")
		}
	}
	end := src.ast.Name.End()
	return u.edit(end, end, "\n\nimport \"context\"")
}
