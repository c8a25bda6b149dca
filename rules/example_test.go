package rules_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/rlgen/rlgen/rules"
)

func ExampleParse() {
	d, err := rules.Parse(`//ratelimit:key 10/1s 100/60s when="req != nil" by=req.Customer`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Limit.Kind, d.Limit.Rules, d.Limit.By)
	fmt.Println(d)
	// Output:
	// key [10,1s 100,1m] req.Customer
	// //ratelimit:key 10,1s 100,1m by=req.Customer when="req != nil"
}

func ExampleParse_errors() {
	_, err := rules.Parse("//ratelimit:user 10,1sec onfial=open")
	var errs rules.Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			fmt.Printf("orders.go:7:%d: %s\n", e.Column+1, e.Msg) // the comment begins behind one tab
		}
	}
	// Output:
	// orders.go:7:22: rule "10,1sec" has the unknown unit "sec", want ms, s, m, h, d or w; write "10,1s"
	// orders.go:7:27: unknown option "onfial", want one that "rlgen help options" has; did you mean "onfail"?
}

func ExampleMatch() {
	for _, comment := range []string{
		"//ratelimit:user 10,1s",
		"// ratelimit:user 10,1s",
		"// The ratelimit: see Orders.",
	} {
		exact, near := rules.Match(comment)
		fmt.Println(exact, near)
	}
	// Output:
	// true <nil>
	// false column 3: found "// ratelimit:user 10,1s", want no blank behind the //; write "//ratelimit:user 10,1s"
	// false <nil>
}

func ExamplePolicy_Validate() {
	p := rules.Policy{
		Type:   "orders.Orders",
		Method: "Create",
		Limits: []rules.Limit{{
			Kind:  rules.User,
			Rules: []rules.Rule{{Count: 100, Window: time.Minute}, {Count: 10, Window: time.Hour}},
		}},
	}
	fmt.Println(p.Validate())
	// Output:
	// rules: policy "orders.Orders.Create": Limits[0] (user 100,1m 10,1h): rule "100,1m" never binds beside "10,1h", which admits at most 10 in 1m, want a count under that; remove one
}

func ExamplePolicy_KeyTemplate() {
	p := rules.Policy{
		Type:   "orders.Orders",
		Method: "Create",
		Limits: []rules.Limit{
			{Kind: rules.User, Rules: []rules.Rule{{Count: 10, Window: time.Second}}},
			{Kind: rules.User, Rules: []rules.Rule{{Count: 5, Window: time.Second}}, When: "req.Bulk"},
			{Kind: rules.Global, Rules: []rules.Rule{{Count: 5000, Window: time.Second}}, Bucket: "writes"},
		},
	}
	for i := range p.Limits {
		fmt.Println(p.Name(i), p.KeyTemplate(i))
	}
	// Output:
	// Create/user rl:user=<id>:orders.Orders-Create
	// Create/user2 rl:user=<id>:orders.Orders-Create@2
	// Create/global rl:global:writes
}

func ExampleSuggest() {
	fmt.Println(rules.Suggest("usre", []string{"ip", "user", "global"}))
	// Output: user
}
