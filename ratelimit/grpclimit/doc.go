// Package grpclimit joins limited services and gRPC servers. It is a module of its own, so that nobody else depends on gRPC.
//
// It does not limit by itself: the limits stand over the methods that handlers call. The interceptors put who is calling into
// the call's context, where limits by ip and by user look, and turn the error of a limited call into a status:
//
//	grpc.NewServer(
//		grpc.ChainUnaryInterceptor(authenticate, grpclimit.UnaryServerInterceptor(grpclimit.WithUserFunc(user))),
//		grpc.ChainStreamInterceptor(authenticateStream, grpclimit.StreamServerInterceptor(grpclimit.WithUserFunc(user))),
//	)
//
// A stream is one call to them. A handler that calls a limited service for each message, with the stream's context, limits
// messages; the stream ends with the status of the error that the handler returns.
//
// # Addresses
//
// No metadata is trusted unasked: the address is that of the connection's peer. A program that proxies stand before says with
// [WithClientAddr] whose word counts.
//
// # Retries
//
// With ResourceExhausted goes the trailer grpc-retry-pushback-ms: how long the client is to wait. A gRPC client retries by its
// service config alone, and then after that time:
//
//	{"methodConfig": [{"name": [{}], "retryPolicy": {
//		"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
//		"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}
//
// Where waiting does not help, the trailer is -1, and the client does not retry. A client retries no call for which the
// server has sent a header or a message, so a handler asks its limits before grpc.SetHeader and before it sends.
//
// # connect-go
//
// Package connectlimit does the same for its handlers, and needs no gRPC.
package grpclimit
