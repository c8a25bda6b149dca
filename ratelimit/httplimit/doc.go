// Package httplimit joins limited services and net/http.
//
// The limits stand over the methods that handlers call. [Identify] puts who is calling into the
// request's context, where limits by ip and by user look, and [WriteError] turns the error of a limited call into an answer:
//
//	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
//		order, err := svc.Create(r.Context(), req)
//		if httplimit.WriteError(w, r, err) {
//			return
//		}
//		…
//	})
//	identify := httplimit.Identify(httplimit.WithUserFunc(user))
//	http.ListenAndServe(addr, httplimit.Headers()(identify(mux)))
//
// [Headers] is for clients that are to know what is left before they are denied. Both it and Identify return a
// func(http.Handler) http.Handler, as routers such as chi take it. The program examples/routers has them under net/http, chi, gin and
// echo, with the users and the errors of each.
//
// # Routes
//
// [Limit] is for what no method stands behind, such as a route that a proxy serves: it limits the requests themselves, by a guard of a
// policy that the program writes, and holds what a concurrency or a lock gives until the handler returns.
//
// # Addresses
//
// No header is trusted unasked: the address is that of the TCP peer. Behind a proxy every caller has the proxy's address, and
// limits by ip count them together. A program says with [WithClientAddr] which proxy's word counts:
//
//	httplimit.Identify(httplimit.WithClientAddr(clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("10.0.0.0/8"))))
//
// What frameworks find out by themselves, such as gin's ClientIP, is not asked. An IPv6 address counts by its /64, or by what
// [ratelimit.WithIPv6Prefix] says.
package httplimit
