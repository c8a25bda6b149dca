package gen

import (
	"go/ast"
	"go/token"
	"go/types"

	"github.com/rlgen/rlgen/rules"
)

// checkBetween reports what is wrong between the services of all units: two of one key, and limits that share a
// bucket and count in different ways.
func checkBetween(sink *findings, services []*service) {
	keys := map[string]*service{}
	buckets := map[string]*limit{}
	for _, s := range services {
		if len(s.limited()) == 0 {
			continue
		}
		u := s.unit
		if other := keys[s.key()]; other != nil && other.unit.pkg.PkgPath != u.pkg.PkgPath {
			sink.errorf(u.position(s.spec.Name.Pos()), "%s is also the name of a service in %s, at %s, and their limits would share keys; rename one of them or its package",
				s.key(), other.unit.pkg.PkgPath, u.seen(other.unit.position(other.spec.Name.Pos())))
		}
		keys[s.key()] = s
		for _, m := range s.limited() {
			checkBuckets(sink, m, buckets)
		}
	}
}

// seen returns a place as the unit's files would name it.
func (u *unit) seen(at token.Position) string {
	at.Filename = relative(u.dir.path, at.Filename)
	return at.String()
}

// checkBuckets reports limits of m that share a bucket with another limit, and count in another way.
func checkBuckets(sink *findings, m *method, buckets map[string]*limit) {
	p, u := m.policy(), m.service.unit
	for i, l := range m.limits {
		l.unit = u
		for _, key := range bucketKeys(p, i) {
			other := buckets[key]
			if other == nil {
				buckets[key] = l
				continue
			}
			if checkShared(sink, l, other) {
				break
			}
		}
	}
}

// bucketKeys returns what names the count of a limit: its key, and for one with a bucket also that of the bucket whatever
// the algorithm, by which a key is told apart.
func bucketKeys(p *rules.Policy, i int) []string {
	l := p.Limits[i]
	keys := []string{p.KeyTemplate(i)}
	if l.Bucket != "" {
		prefix, _ := p.Key(i)
		keys = append(keys, prefix+" "+l.Kind.String()+" "+l.Whose().String()+" "+l.Bucket+" "+l.Plan+" "+l.Mode.String())
	}
	return keys
}

// checkShared reports two limits that share a bucket and do not count alike.
func checkShared(sink *findings, l, other *limit) bool {
	if l.Bucket == "" && other.Bucket == "" {
		return false
	}
	shares, owner := l, other // who says so
	if l.Bucket == "" {
		shares, owner = other, l
	}
	differ := rules.SameCount(&shares.Limit, &owner.Limit)
	if differ == nil {
		return false
	}
	u := shares.unit
	sink.errorf(u.position(shares.line.column("bucket")), "bucket %q counts in another way at %s: %v here and there; write here what stands there, or bucket= and another word",
		shares.Bucket, u.seen(owner.unit.position(owner.line.pos)), differ)
	return true
}

// checkWarnings reports what is no error and yet likely a mistake: calls that pass no wrapper.
func (u *unit) checkWarnings() {
	u.checkSelfCalls()
	u.checkPlans()
	for _, s := range u.services {
		if s.iface == nil {
			continue
		}
		for _, m := range s.methods {
			u.checkInherited(s, m)
		}
		if s.typeParams().Len() > 0 {
			continue
		}
		for _, m := range s.methods {
			u.checkBoth(s, m)
			u.checkFluent(s, m)
		}
	}
}

// checkBoth warns of a limited method whose implementation in the package is limited too: a call would be counted
// twice.
func (u *unit) checkBoth(s *service, m *method) {
	if len(m.limits) == 0 {
		return
	}
	for _, impl := range u.services {
		if impl.iface != nil || impl.typeParams().Len() > 0 || !types.Implements(types.NewPointer(impl.obj.Type()), s.iface) {
			continue
		}
		for _, other := range impl.limited() {
			if other.fn.Name() == m.fn.Name() {
				u.warnf(m.pos, "%s.%s is limited, and so is its implementation %s.%[2]s: behind both wrappers a call counts twice; keep one", s.name(), m.fn.Name(), impl.name())
				u.warnf(other.pos, "%s.%s is limited, and so is the method of %s that it implements: behind both wrappers a call counts twice; keep one", impl.name(), m.fn.Name(), s.name())
			}
		}
	}
}

// checkFluent warns of a method that returns its own interface: what it returns is not behind the wrapper.
func (u *unit) checkFluent(s *service, m *method) {
	for v := range m.sig.Results().Variables() {
		if types.Identical(v.Type(), s.obj.Type()) {
			u.warnf(m.pos, "%s returns %s, and what it returns is not behind the wrapper: calls on it are not limited; put it there by %s where they are to be", m.fn.Name(), s.name(), s.constructor())
		}
	}
}

// checkSelfCalls warns of limited methods that their own type calls: such a call does not pass the wrapper.
func (u *unit) checkSelfCalls() {
	for _, src := range u.sources {
		if src.excluded {
			continue
		}
		for _, decl := range src.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv != nil && fn.Body != nil && len(fn.Recv.List) == 1 && len(fn.Recv.List[0].Names) == 1 {
				u.checkBody(fn)
			}
		}
	}
}

func (u *unit) checkBody(fn *ast.FuncDecl) {
	recv := fn.Recv.List[0].Names[0].Name
	limited := u.limitedOf(receiverName(fn))
	if len(limited) == 0 || redeclares(fn.Body, recv) {
		return
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := ast.Unparen(sel.X).(*ast.Ident); ok && id.Name == recv && limited[sel.Sel.Name] != nil {
			u.warnf(call.Pos(), "%s.%s is called on its own receiver and is not limited here: the call does not pass the wrapper %s; give the service the limited one to call, if the call is to count",
				recv, sel.Sel.Name, limited[sel.Sel.Name].wrapper())
		}
		return true
	})
}

// limitedOf returns the limited methods of a type of the package by name: its own, and those of the interfaces that
// it implements.
func (u *unit) limitedOf(name string) map[string]*service {
	spec := u.typeSpec(name)
	if spec == nil {
		return nil
	}
	obj := u.types.Scope().Lookup(spec.Name.Name)
	if obj == nil {
		return nil
	}
	limited := map[string]*service{}
	for _, s := range u.services {
		implements := s.iface != nil && s.typeParams().Len() == 0 && types.Implements(types.NewPointer(obj.Type()), s.iface)
		if s.spec != spec && !implements {
			continue
		}
		for _, m := range s.limited() {
			limited[m.fn.Name()] = s
		}
	}
	return limited
}

// redeclares reports whether a block of the body declares the name anew.
func redeclares(body *ast.BlockStmt, name string) bool {
	found := false
	see := func(e ast.Node) {
		if id, ok := e.(*ast.Ident); ok && id.Name == name {
			found = true
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					see(e)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				see(n.Key)
				see(n.Value)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				see(id)
			}
		case *ast.Field:
			for _, id := range n.Names {
				see(id)
			}
		}
		return !found
	})
	return found
}
