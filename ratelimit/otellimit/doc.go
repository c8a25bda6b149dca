// Package otellimit tells OpenTelemetry what a limiter decides. It is a module of its own, so that nobody else depends on
// OpenTelemetry, and it uses that one's API alone: providers are given, never the global ones.
//
//	observer, err := otellimit.New(otellimit.WithMeterProvider(provider))
//	…
//	limiter, err := ratelimit.New(store, ratelimit.WithObserver(observer))
//
// # Metrics
//
// No convention of OpenTelemetry's names what a rate limiter measures; these names follow those of ASP.NET Core's.
//
//	rate_limiting.requests               counter          {request}   policy, method, result, mode, source, banned, error
//	rate_limiting.check.duration         histogram        s           method, result
//	rate_limiting.request.time_in_queue  histogram        s           method, result
//	rate_limiting.active_request_leases  up-down counter  {request}   policy, method
//	rate_limiting.store.errors           counter          {error}     error
//	rate_limiting.fallbacks              counter          {request}   policy, method, source
//	rate_limiting.policy.reloads         counter          {reload}    error
//
// and these are the attributes:
//
//	policy   rate_limiting.policy   the limit's name, as errors and overrides have it: "Create/user"
//	method   code.function.name     what was called: "orders.Orders.Create"
//	result   rate_limiting.result   acquired, rejected, canceled or error
//	mode     rate_limiting.mode     enforce or shadow
//	source   rate_limiting.source   who decided: store, cache (what this process remembers of the store), prefetch (what
//	                                this process took from the store ahead), local (this process alone) or fallback (nobody, as onfail=open says)
//	banned   rate_limiting.banned   true where the caller is banned, for which the limit denies everything; else it is not there
//	error    error.type             why not, where the result is error; what kind of error
//
// A call counts in requests for each of its limits: as acquired for all of them if it may proceed; if not, as rejected for those
// that had no room, and not at all for those that had, which it was not charged to. A call that nobody decided counts for all
// limits of its method, as canceled where its context has ended, and else as error: no_identity, cost, unavailable or
// misconfigured.
//
// The time that a call takes to be decided is without what it waits for room, which is its time_in_queue; a call that does not
// wait is not in the latter. Leases are what calls hold while they run, for limits of kind concurrency and lock.
//
// # Traces
//
// A denied call adds the event rate_limiting.rejected to its caller's span, with the attributes of the limit that denies it for the
// longest. That is not an error of the span: it is the limiter's work.
//
// # Ids
//
// No attribute has a caller's id, nor an error's text. All values come from the program's own source, so that their number is
// bounded by it.
package otellimit
