package main

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
)

// luaCode is a comment, a string, or a word that has a swap.
var luaCode = regexp.MustCompile(`--[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|<=|>=|<|>|[+-] 1\b|\bmath\.(?:max|min|floor|ceil)\b`)

// luaSites returns the words of a Lua file that have a swap.
func luaSites(text []byte) []site {
	var sites []site
	for _, at := range luaCode.FindAllIndex(text, -1) {
		start := at[0]
		if bytes.HasPrefix(text[start:], []byte("math.")) {
			start += len("math.")
		}
		old := string(text[start:at[1]])
		if swap, ok := swaps[old]; ok {
			sites = append(sites, site{start, old, swap})
		}
	}
	return sites
}

// goSites returns the words of a Go file that have a swap.
func goSites(file string, text []byte) ([]site, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, text, 0)
	if err != nil {
		return nil, err
	}
	var sites []site
	add := func(pos token.Pos, old string) {
		offset := set.Position(pos).Offset
		if bytes.HasPrefix(text[offset:], []byte(old)) {
			sites = append(sites, site{offset, old, swaps[old]})
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			one, ok := n.Y.(*ast.BasicLit)
			switch {
			case n.Op == token.LSS, n.Op == token.LEQ, n.Op == token.GTR, n.Op == token.GEQ:
				add(n.OpPos, n.Op.String())
			case ok && one.Value == "1" && (n.Op == token.ADD || n.Op == token.SUB):
				add(n.OpPos, n.Op.String()+" 1")
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "max" || f.Name == "min") && len(n.Args) > 1 {
				add(f.Pos(), f.Name)
			}
		}
		return true
	})
	slices.SortFunc(sites, func(a, b site) int { return cmp.Compare(a.offset, b.offset) })
	return sites, nil
}
