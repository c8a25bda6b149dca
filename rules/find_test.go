package rules_test

import (
	"testing"

	"github.com/rlgen/rlgen/rules"
)

func TestFindMethod(t *testing.T) {
	var policies []*rules.Policy
	for _, of := range [][2]string{{"orders.Orders", "Create"}, {"orders.Orders", "Find"}, {"carts.Carts", "Find"}} {
		policies = append(policies, &rules.Policy{Type: of[0], Method: of[1]})
	}
	for name, want := range map[string]string{
		"orders.Orders.Create": "orders.Orders.Create",
		"Orders.Create":        "orders.Orders.Create",
		"Create":               "orders.Orders.Create",
		"Carts.Find":           "carts.Carts.Find",
		"Find":                 "2 limited methods are called Find, want one of carts.Carts.Find, orders.Orders.Find",
		"Craete":               "no limited method Craete; did you mean Create?",
		"orders.Orders.Creat":  "no limited method orders.Orders.Creat; did you mean orders.Orders.Create?",
		"reate":                "no limited method reate; did you mean Create?",
		"Delete":               "no limited method Delete, want one of carts.Carts.Find, orders.Orders.Create, orders.Orders.Find",
		"":                     "no limited method , want one of carts.Carts.Find, orders.Orders.Create, orders.Orders.Find",
	} {
		t.Run(name, func(t *testing.T) {
			p, err := rules.FindMethod(policies, name)
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = p.Type + "." + p.Method
			}
			if got != want {
				t.Errorf("FindMethod(%q) = %s, want %s", name, got, want)
			}
		})
	}
	if _, err := rules.FindMethod(nil, "Find"); err == nil || err.Error() != "no limited method Find, nor any other" {
		t.Errorf("FindMethod among none = %v, want an error that says so", err)
	}
}
