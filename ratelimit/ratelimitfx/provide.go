package ratelimitfx

import (
	"errors"
	"fmt"
	"reflect"

	"go.uber.org/fx"

	"github.com/rlgen/rlgen/ratelimit"
)

// Provide provides I, the interface of a limited service, by an implementation that constructor makes and wrap, the generated
// constructor, limits:
//
//	ratelimitfx.Provide[orders.Orders](postgres.NewOrders, orders.NewRateLimitedOrders)
//
// The implementation stays private to this option: no consumer can get at it, by its own type or by the interface.
//
// constructor is a function, with the parameters that fx knows, [fx.In] and variadic ones included, that returns I or a type
// that implements it, and may return an error after it, or a clean-up function and an error: then the clean-up runs when the app
// stops. Its annotations, such as [fx.ParamTags], are the last arguments. A
// constructor of anything else makes [fx.New] fail.
func Provide[I, W any](
	constructor any, wrap func(I, *ratelimit.Limiter) W, annotations ...fx.Annotation,
) fx.Option {
	i := reflect.TypeFor[I]()
	if err := provides(i, constructor, reflect.TypeOf(wrap)); err != nil {
		return fx.Error(fmt.Errorf("ratelimitfx.Provide[%v]: %w", i, err))
	}
	if wrap == nil {
		return fx.Error(fmt.Errorf("ratelimitfx.Provide[%v]: wrap is nil, want the generated constructor", i))
	}
	limited := func(next raw[I], limiter *ratelimit.Limiter) I {
		n, _ := next.(I) // nil if the constructor's result is, which is for wrap to refuse
		return any(wrap(n, limiter)).(I)
	}
	return fx.Module("ratelimit("+i.String()+")", fx.Provide(
		fx.Annotate(withLifecycle(constructor), append([]fx.Annotation{fx.As(new(raw[I]))}, annotations...)...),
		limited,
	))
}

// withLifecycle returns a constructor that also returns a clean-up as one without, which has the app run it when it stops.
func withLifecycle(constructor any) any {
	c := reflect.ValueOf(constructor)
	t := c.Type()
	if t.NumOut() != 3 {
		return constructor
	}
	var in []reflect.Type
	for i := range t.NumIn() {
		if !t.IsVariadic() || i < t.NumIn()-1 {
			in = append(in, t.In(i))
		}
	}
	n := len(in)
	in = append(in, reflect.TypeFor[fx.Lifecycle]())
	made := reflect.FuncOf(in, []reflect.Type{t.Out(0), errorType}, false)
	return reflect.MakeFunc(made, func(args []reflect.Value) []reflect.Value {
		results := c.Call(args[:n])
		if results[2].IsNil() && !results[1].IsNil() {
			cleanup := results[1].Convert(cleanupType).Interface().(func())
			args[n].Interface().(fx.Lifecycle).Append(fx.StopHook(cleanup))
		}
		return []reflect.Value{results[0], results[2]}
	}).Interface()
}

// raw is an I without its limits, as a type of the graph that nobody else can name. It is not an [fx.Private] one, because
// a cycle through one of those overflows the stack where others are an error.
type raw[I any] interface{}

var (
	cleanupType   = reflect.TypeFor[func()]()
	errorType     = reflect.TypeFor[error]()
	annotatedType = reflect.TypeOf(fx.Annotate(func() int { return 0 }))
)

// provides reports why constructor and a wrap of type w do not make an i.
func provides(i reflect.Type, constructor any, w reflect.Type) error {
	if i.Kind() != reflect.Interface {
		return fmt.Errorf("%v is not an interface, want the one that the directives stand in", i)
	}
	if out := w.Out(0); !out.Implements(i) {
		return fmt.Errorf("wrap returns %v, which does not implement %v, want the generated constructor", out, i)
	}
	c := reflect.TypeOf(constructor)
	const want = "want a func that returns %v, or a type that implements it, and maybe an error, or a clean-up func() and an error"
	switch {
	case c == annotatedType:
		return errors.New("constructor is an fx.Annotate, want the func itself, and its annotations as the last arguments")
	case c == nil || c.Kind() != reflect.Func:
		return fmt.Errorf("constructor is a %T, "+want, constructor, i)
	case reflect.ValueOf(constructor).IsNil():
		return fmt.Errorf("constructor is nil, "+want, i)
	case c.NumOut() == 0 || c.NumOut() > 3 || c.NumOut() > 1 && c.Out(c.NumOut()-1) != errorType,
		c.NumOut() == 3 && !c.Out(1).ConvertibleTo(cleanupType):
		return fmt.Errorf("constructor is a %v, "+want, c, i)
	case !c.Out(0).Implements(i):
		return fmt.Errorf("constructor is a %v, and %v does not implement %v, "+want, c, c.Out(0), i, i)
	}
	return nil
}
