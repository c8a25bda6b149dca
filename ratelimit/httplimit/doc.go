// Package httplimit joins limited services and net/http.
//
// It does not limit by itself: the limits stand over the methods that handlers call. [Identify] puts who is calling into the
// request's context, where limits by ip and by user look, and [WriteError] turns the error of a limited call into an answer:
//
//	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
//		order, err := svc.Create(r.Context(), req)
//		if httplimit.WriteError(w, r, err) {
//			return
//		}
//		…
//	})
//	http.ListenAndServe(addr, httplimit.Identify(httplimit.WithUserFunc(user))(mux))
//
// [Identify] is a func(http.Handler) http.Handler, as routers such as chi take it.
//
// # Addresses
//
// No header is trusted unasked: the address is that of the TCP peer. Behind a proxy every caller has the proxy's address, and
// limits by ip count them together. A program says with [WithClientAddr] which proxy's word counts:
//
//	httplimit.Identify(httplimit.WithClientAddr(clientaddr.XFFTrustedCIDRs(netip.MustParsePrefix("10.0.0.0/8"))))
package httplimit
