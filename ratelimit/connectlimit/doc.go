// Package connectlimit joins limited services and Connect servers. It is a module of its own, so that nobody else depends on Connect; it needs no gRPC.
//
// It does not limit by itself: the limits stand over the methods that handlers call. The interceptor puts who is calling into the call's
// context, where limits by ip and by user look, and turns the error of a limited call into one of Connect's:
//
//	mux.Handle(ordersconnect.NewOrdersHandler(svc, connect.WithInterceptors(authenticate, connectlimit.Interceptor(connectlimit.WithUserFunc(user)))))
//
// A stream is one call to it. A handler that calls a limited service for each message, with the stream's context, limits messages; the
// stream ends with the error that the handler returns.
//
// # Addresses
//
// No header is trusted unasked: the address is that of the connection's peer. A program that proxies stand before says with
// [WithClientAddr] whose word counts.
//
// # Waiting
//
// A denied call is answered with the error's details, and by Connect's own protocol with the header Retry-After, too, which a stream has in its last
// message. By gRPC it has the trailer grpc-retry-pushback-ms, for which the retry policy of a gRPC client waits. Where waiting does not help, Retry-After and
// the RetryInfo among the details are not there, and the trailer is -1, at which a client does not retry.
//
// # What is left
//
// Connect's handlers are net/http handlers: httplimit.Headers around them tells clients of Connect's protocol what limits have left.
package connectlimit
