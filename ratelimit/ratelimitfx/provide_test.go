package ratelimitfx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimitfx"
)

// TestNoConsumerGetsTheRawService starts an app for each shape of provider, each place of the service and each place of a
// consumer.
func TestNoConsumerGetsTheRawService(t *testing.T) {
	none := fx.Options()
	shapes := []struct {
		name             string
		service, limited fx.Option
	}{
		{"concrete in, interface out", fx.Provide(NewService), generated(ProvideRateLimitedOrders)},
		{"composed constructor", none, generated(ProvideComposedOrders)},
		{
			"ratelimitfx.Provide of a concrete type", none,
			fx.Options(ratelimitfx.Provide[Orders](NewService, NewRateLimitedOrders), policies(&createPolicy)),
		},
		{
			"ratelimitfx.Provide of the interface", none,
			fx.Options(ratelimitfx.Provide[Orders](NewOrders, NewRateLimitedOrders), policies(&createPolicy)),
		},
	}
	places := []struct {
		name  string
		build func(service, limited, consumer fx.Option) fx.Option
	}{
		{"all at the root", func(s, l, c fx.Option) fx.Option { return fx.Options(s, l, c) }},
		{"service in a module", func(s, l, c fx.Option) fx.Option { return fx.Options(fx.Module("a", s), l, c) }},
		{"consumer in a module", func(s, l, c fx.Option) fx.Option { return fx.Options(s, l, fx.Module("a", c)) }},
		{"consumer before", func(s, l, c fx.Option) fx.Option { return fx.Options(c, l, s) }},
		{"consumer beside the service", func(s, l, c fx.Option) fx.Option {
			return fx.Options(fx.Module("a", s, c), fx.Module("b", l))
		}},
		{"each in its module", func(s, l, c fx.Option) fx.Option {
			return fx.Options(fx.Module("a", s), fx.Module("b", l), fx.Module("c", c))
		}},
		{"all in one module", func(s, l, c fx.Option) fx.Option { return fx.Module("a", s, l, c) }},
		{"limits nested in the service's module", func(s, l, c fx.Option) fx.Option {
			return fx.Options(fx.Module("a", s, fx.Module("b", l)), c)
		}},
		{"consumer nested in the limits' module", func(s, l, c fx.Option) fx.Option {
			return fx.Options(s, fx.Module("a", l, fx.Module("b", c)))
		}},
	}
	for _, shape := range shapes {
		for _, place := range places {
			t.Run(shape.name+"/"+place.name, func(t *testing.T) {
				var got []Orders
				// Consumers that are invoked, that are constructed, and that take it by a parameter object.
				type in struct {
					fx.In
					Orders Orders
				}
				type server struct{ orders Orders }
				consumer := fx.Options(
					fx.Invoke(func(o Orders) { got = append(got, o) }),
					fx.Provide(func(o Orders) *server { return &server{o} }),
					fx.Invoke(func(s *server) { got = append(got, s.orders) }),
					fx.Invoke(func(p in) { got = append(got, p.Orders) }),
				)
				if err := run(place.build(shape.service, shape.limited, consumer)); err != nil {
					t.Fatal(err)
				}
				if len(got) != 3 {
					t.Fatalf("%d consumers got the service, want 3", len(got))
				}
				for i, o := range got {
					if !limited(o, fmt.Sprint("user", i)) {
						t.Errorf("consumer %d got a %T that is not limited", i, o)
					}
				}
			})
		}
	}
}

// TestASecondProviderFails holds that a raw service beside the limited one is an error, not a choice.
func TestASecondProviderFails(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limited fx.Option
	}{
		{"concrete in, interface out", fx.Options(fx.Provide(NewService), generated(ProvideRateLimitedOrders))},
		{"composed constructor", generated(ProvideComposedOrders)},
		{"ratelimitfx.Provide", ratelimitfx.Provide[Orders](NewOrders, NewRateLimitedOrders)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := run(tt.limited, fx.Provide(NewOrders), fx.Invoke(func(Orders) {}))
			if err == nil || !strings.Contains(err.Error(), "already provided") {
				t.Errorf("app = %v, want an error that it is already provided", err)
			}
		})
	}
}

// TestDecorateBypasses states the facts about fx for which nothing here is decorated.
func TestDecorateBypasses(t *testing.T) {
	limit := func(next Orders, limiter *ratelimit.Limiter) Orders { return NewRateLimitedOrders(next, limiter) }

	t.Run("in a module", func(t *testing.T) {
		var inside, outside Orders
		err := run(
			fx.Provide(NewOrders),
			fx.Module("a", fx.Decorate(limit), fx.Invoke(func(o Orders) { inside = o })),
			fx.Invoke(func(o Orders) { outside = o }),
		)
		if err != nil {
			t.Fatal(err)
		}
		if !limited(inside, "a") || limited(outside, "b") {
			t.Errorf("inside is a %T, outside a %T: want the decorator to reach the inside only", inside, outside)
		}
	})
	t.Run("by a concrete type", func(t *testing.T) {
		var got Orders
		err := run(
			fx.Provide(NewService),
			fx.Decorate(limit),
			fx.Invoke(func(s *Service) { got = s }),
		)
		if err != nil {
			t.Fatal(err)
		}
		if limited(got, "a") {
			t.Errorf("the consumer got a %T, want the raw service", got)
		}
	})
	for name, second := range map[string]fx.Option{
		"twice":           fx.Decorate(func(o Orders) Orders { return o }),
		"with fx.Replace": fx.Replace(fx.Annotate(NewService(), fx.As(new(Orders)))),
	} {
		t.Run(name, func(t *testing.T) {
			err := run(fx.Provide(NewOrders), fx.Decorate(limit), second, fx.Invoke(func(Orders) {}))
			if err == nil || !strings.Contains(err.Error(), "already decorated") {
				t.Errorf("app = %v, want an error that it is already decorated", err)
			}
		})
	}
}

// TestUsersMayDecorate holds that the app's own decorator wraps the limited service, as it may once.
func TestUsersMayDecorate(t *testing.T) {
	type logged struct{ Orders }
	var got Orders
	err := run(
		ratelimitfx.Provide[Orders](NewOrders, NewRateLimitedOrders),
		fx.Decorate(func(o Orders) Orders { return logged{o} }),
		fx.Invoke(func(o Orders) { got = o }),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := got.(logged); !ok || !limited(got, "a") {
		t.Errorf("the consumer got a %T, want the decorated limited service", got)
	}
}

func TestProvideKeepsTheServicePrivate(t *testing.T) {
	type wide interface{ Create(context.Context) error }
	for name, consumer := range map[string]fx.Option{
		"by its type":              fx.Invoke(func(*Service) {}),
		"by the wrapper's type":    fx.Invoke(func(*RateLimitedOrders) {}),
		"by another interface":     fx.Invoke(func(wide) {}),
		"by any":                   fx.Invoke(func(any) {}),
		"by its type, in a module": fx.Module("a", fx.Invoke(func(*Service) {})),
	} {
		t.Run(name, func(t *testing.T) {
			err := run(ratelimitfx.Provide[Orders](NewService, NewRateLimitedOrders), consumer)
			if err == nil || !strings.Contains(err.Error(), "missing type") {
				t.Errorf("app = %v, want an error that the type is missing", err)
			}
		})
	}
}

// DB is what a constructor depends on.
type DB struct{ name string }

type ordersIn struct {
	fx.In

	Lifecycle fx.Lifecycle
	Primary   *DB
	Replica   *DB  `name:"replica"`
	Cache     *int `optional:"true"`
}

type extra struct{}

func TestProvideTakesConstructorsAsFxDoes(t *testing.T) {
	var called []string
	note := func(what ...any) *Service {
		called = append(called, fmt.Sprint(what...))
		return &Service{}
	}
	for _, tt := range []struct {
		name        string
		constructor any
		annotations []fx.Annotation
		want        []string
	}{
		{"no parameter", func() *Service { return note() }, nil, []string{""}},
		{"interface", func() Orders { return note() }, nil, []string{""}},
		{"error", func(db *DB) (*Service, error) { return note(db.name), nil }, nil, []string{"primary"}},
		{"interface and error", func(db *DB) (Orders, error) { return note(db.name), nil }, nil, []string{"primary"}},
		{"fx.In", func(in ordersIn) (*Service, error) {
			in.Lifecycle.Append(fx.StartStopHook(
				func() { called = append(called, "start") },
				func() { called = append(called, "stop") },
			))
			return note(in.Primary.name, " ", in.Replica.name, " ", in.Cache == nil), nil
		}, nil, []string{"primary replica true", "start", "stop"}},
		{"variadic, none", func(db *DB, e ...extra) *Service { return note(db.name, len(e)) }, nil, []string{"primary0"}},
		{"variadic, some", func(db *DB, ns ...int) *Service { return note(db.name, ns) }, nil, []string{"primary[1 2]"}},
		{"the limiter", func(l *ratelimit.Limiter) Orders { return note(l != nil) }, nil, []string{"true"}},
		{
			"fx.ParamTags",
			func(db *DB) *Service { return note(db.name) },
			[]fx.Annotation{fx.ParamTags(`name:"replica"`)},
			[]string{"replica"},
		},
		{
			"fx.OnStop",
			func() *Service { return note() },
			[]fx.Annotation{fx.OnStop(func(context.Context) error {
				called = append(called, "stop")
				return nil
			})},
			[]string{"", "stop"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			called = nil
			var got []Orders
			err := run(
				fx.Supply(&DB{"primary"}, fx.Annotate(&DB{"replica"}, fx.ResultTags(`name:"replica"`)), []int{1, 2}),
				ratelimitfx.Provide[Orders](tt.constructor, NewRateLimitedOrders, tt.annotations...),
				fx.Invoke(func(a, b Orders) { got = append(got, a, b) }),
			)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%q", called) != fmt.Sprintf("%q", tt.want) {
				t.Errorf("calls = %q, want %q", called, tt.want)
			}
			if got[0] != got[1] || !limited(got[0], "a") {
				t.Errorf("consumers got %T, %T, want one limited service", got[0], got[1])
			}
		})
	}
}

// Reader is a second interface that a Service implements.
type Reader interface{ Create(context.Context) error }

type rateLimitedReader struct{ *RateLimitedOrders }

func newRateLimitedReader(next Reader, l *ratelimit.Limiter) rateLimitedReader {
	return rateLimitedReader{NewRateLimitedOrders(next, l)}
}

func TestProvideOfSeveralServices(t *testing.T) {
	err := run(
		ratelimitfx.Provide[Orders](NewService, NewRateLimitedOrders),
		ratelimitfx.Provide[Reader](NewService, newRateLimitedReader),
		fx.Invoke(func(o Orders, r Reader) {
			if !limited(o, "a") || !limited(r, "b") {
				t.Errorf("consumers got %T, %T, want both limited", o, r)
			}
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

var errBroken = errors.New("no database")

func newBrokenOrders() (Orders, error) { return nil, errBroken }

func newOrdersOverDB(*DB) Orders { return &Service{} }

func newOrdersOverOrders(Orders) *Service { return &Service{} }

type billing struct{}

func newBilling(Orders) *billing { return &billing{} }

func newOrdersOverBilling(*billing) *Service { return &Service{} }

func TestProvideFailsAtTheConstructor(t *testing.T) {
	use := fx.Invoke(func(Orders) {})

	t.Run("its error", func(t *testing.T) {
		err := run(ratelimitfx.Provide[Orders](newBrokenOrders, NewRateLimitedOrders), use)
		if !errors.Is(err, errBroken) {
			t.Errorf("app = %v, want %v", err, errBroken)
		}
	})
	for _, tt := range []struct {
		name        string
		constructor any
		want        []string
	}{
		{"a missing dependency", newOrdersOverDB, []string{"raw[github.com/rlgen/rlgen/ratelimit/ratelimitfx_test.Orders]", "missing type: *ratelimitfx_test.DB"}},
		{"a cycle", newOrdersOverOrders, []string{"cycle detected", "func(ratelimitfx_test.Orders)"}},
		{"a longer cycle", newOrdersOverBilling, []string{"cycle detected", "newBilling"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := run(
				fx.Module("a", use), // first, and not in the module of the constructor
				fx.Module("b", fx.Provide(newBilling)),
				ratelimitfx.Provide[Orders](tt.constructor, NewRateLimitedOrders),
			)
			if err == nil {
				t.Fatal("app starts, want an error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("app = %v, want %q in it", err, want)
				}
			}
		})
	}
}

type outOrders struct {
	fx.Out
	Orders Orders
}

func TestProvideRefuses(t *testing.T) {
	const prefix = "ratelimitfx.Provide[ratelimitfx_test.Orders]: "
	const want = "want a func that returns ratelimitfx_test.Orders, or a type that implements it, and maybe an error, or a clean-up func() and an error"
	provide := func(constructor any) fx.Option {
		return ratelimitfx.Provide[Orders](constructor, NewRateLimitedOrders)
	}
	for _, tt := range []struct {
		name   string
		option fx.Option
		want   string
	}{
		{"nil", provide(nil), prefix + "constructor is a <nil>, " + want},
		{"a nil func", provide((func() Orders)(nil)), prefix + "constructor is nil, " + want},
		{"a service", provide(NewService()), prefix + "constructor is a *ratelimitfx_test.Service, " + want},
		{"nothing", provide(func() {}), prefix + "constructor is a func(), " + want},
		{"an error", provide(func() error { return nil }), prefix + "constructor is a func() error, and error does not implement ratelimitfx_test.Orders, " + want},
		{"another type", provide(func() *DB { return nil }), prefix + "constructor is a func() *ratelimitfx_test.DB, and *ratelimitfx_test.DB does not implement ratelimitfx_test.Orders, " + want},
		{"a cleanup", provide(func() (Orders, func()) { return nil, nil }), prefix + "constructor is a func() (ratelimitfx_test.Orders, func()), " + want},
		{"three results", provide(func() (Orders, *DB, error) { return nil, nil, nil }), prefix + "constructor is a func() (ratelimitfx_test.Orders, *ratelimitfx_test.DB, error), " + want},
		{"fx.Out", provide(func() outOrders { return outOrders{} }), prefix + "constructor is a func() ratelimitfx_test.outOrders, and ratelimitfx_test.outOrders does not implement ratelimitfx_test.Orders, " + want},
		{"an fx.Annotate", provide(fx.Annotate(NewOrders)), prefix + "constructor is an fx.Annotate, want the func itself, and its annotations as the last arguments"},
		{"a nil wrap", ratelimitfx.Provide[Orders, *RateLimitedOrders](NewOrders, nil), prefix + "wrap is nil, want the generated constructor"},
		{
			"a wrap of another type",
			ratelimitfx.Provide[Orders](NewOrders, func(Orders, *ratelimit.Limiter) *DB { return nil }),
			prefix + "wrap returns *ratelimitfx_test.DB, which does not implement ratelimitfx_test.Orders, want the generated constructor",
		},
		{
			"no interface",
			ratelimitfx.Provide[*Service](NewService, func(s *Service, _ *ratelimit.Limiter) *Service { return s }),
			"ratelimitfx.Provide[*ratelimitfx_test.Service]: *ratelimitfx_test.Service is not an interface, want the one that the directives stand in",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := run(tt.option)
			if err == nil || err.Error() != tt.want {
				t.Errorf("app = %v, want %s", err, tt.want)
			}
		})
	}
}
