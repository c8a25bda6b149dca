package rules

import (
	"fmt"
	"slices"
	"strings"
)

// FindMethod returns the policy of the method of a name: "orders.Orders.Create"; or "Orders.Create" or "Create", where only one method is called so.
func FindMethod(policies []*Policy, name string) (*Policy, error) {
	var found []*Policy
	var names, words, matches []string
	for _, p := range policies {
		full := p.Type + "." + p.Method
		if full == name {
			return p, nil
		}
		names = append(names, full)
		words = append(words, full, p.Method)
		if strings.HasSuffix(full, "."+name) {
			found, matches = append(found, p), append(matches, full)
		}
	}
	slices.Sort(names)
	slices.Sort(matches)
	switch near := Suggest(name, words); {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%d limited methods are called %s, want one of %s", len(found), name, strings.Join(matches, ", "))
	case len(names) == 0:
		return nil, fmt.Errorf("no limited method %s, nor any other", name)
	case near != "":
		return nil, fmt.Errorf("no limited method %s; did you mean %s?", name, near)
	}
	return nil, fmt.Errorf("no limited method %s, want one of %s", name, strings.Join(names, ", "))
}
