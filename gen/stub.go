package gen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// The names under which a stub's file imports what is generated code runs on, ones that no person writes.
const (
	stubImport     = "rlgen_runtime_"
	stubImportFx   = "rlgen_fx_"
	stubImportWire = "rlgen_wire_"
)

// stub adds to the sources, in memory, declarations of what is about to be generated, so that code which names it
// already has types. The declarations belong to no file: no position of a source moves.
func (u *unit) stub() {
	imported := map[*source]bool{}
	known := predeclaredNames().with(u.declared, u.importedNames(), names{"main": true})
	for _, s := range u.services {
		if len(imported) == 0 {
			u.stubInjection(s.src, moduleName, stubImportFx, fxPath, "Option")
			u.stubInjection(s.src, setName, stubImportWire, wirePath, "ProviderSet")
		}
		if !imported[s.src] {
			imported[s.src] = true
			u.stubDecls(s.src, "import "+stubImport+" "+strconv.Quote(runtimePath))
		}
		if !slices.ContainsFunc(s.generatedNames(), known.has) {
			u.stubDecls(s.src, s.stubText())
		}
	}
}

// stubInjection declares what an injection file does.
func (u *unit) stubInjection(src *source, name, alias, framework, typ string) {
	if !u.declared.has(name) {
		u.stubDecls(src, "import "+alias+" "+strconv.Quote(framework)+"\nvar "+name+" "+alias+"."+typ)
	}
}

func (u *unit) stubDecls(s *source, text string) {
	f, err := parser.ParseFile(u.fset, "", "package p\n"+text, parser.SkipObjectResolution)
	if err != nil { // of a type whose own declaration does not parse
		return
	}
	s.ast.Decls = append(s.ast.Decls, f.Decls...)
}

// stubText declares the wrapper and its functions. What is wrapped is embedded under a name that none of its methods
// has, where the language has an alias for it.
func (s *service) stubText() string {
	params, args := s.paramText()
	next := s.name() + args
	star := ""
	if _, ok := ast.Unparen(s.spec.Type).(*ast.InterfaceType); !ok && s.hasPointerMethods() {
		star = "*"
	}
	text, embedded := "", next
	if params == "" {
		embedded = "rlgen_" + s.wrapper() + "_"
		text = "type " + embedded + " = " + next + "\n"
		if !s.unit.declared.has(s.provider()) {
			text += "var " + s.provider() + " interface{}\n"
		}
	}
	return text + fmt.Sprintf("type %[1]s%[2]s struct{ %[4]s }\nfunc %[6]s%[2]s(%[5]s, *%[7]s.Limiter) *%[1]s%[3]s { panic(0) }\n",
		s.wrapper(), params, args, star+embedded, star+next, s.constructor(), stubImport)
}

// paramText returns the type's parameters as they were written, blank ones with a name, and the arguments
// that stand for them.
func (s *service) paramText() (params, args string) {
	if s.spec.TypeParams == nil {
		return "", ""
	}
	var decls, uses []string
	for _, field := range s.spec.TypeParams.List {
		constraint := s.src.slice(s.unit.fset, field.Type)
		for _, name := range field.Names {
			text := name.Name
			if text == "_" {
				text = "rlgen_" + strconv.Itoa(len(uses)) + "_"
			}
			decls = append(decls, text+" "+constraint)
			uses = append(uses, text)
		}
	}
	return "[" + strings.Join(decls, ", ") + ",]", "[" + strings.Join(uses, ", ") + "]"
}

// slice returns the text of a node.
func (s *source) slice(fset *token.FileSet, n ast.Node) string {
	file := fset.File(s.ast.FileStart)
	return string(s.text[file.Offset(n.Pos()):file.Offset(n.End())])
}

// hasPointerMethods reports whether a method of the type has its pointer for a receiver.
func (s *service) hasPointerMethods() bool {
	for _, src := range s.unit.sources {
		if src.excluded {
			continue
		}
		for _, decl := range src.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || len(fn.Recv.List) != 1 {
				continue
			}
			_, star := ast.Unparen(fn.Recv.List[0].Type).(*ast.StarExpr)
			if star && s.unit.typeSpec(receiverName(fn)) == s.spec {
				return true
			}
		}
	}
	return false
}
