module github.com/rlgen/rlgen/ratelimit/connectlimit

go 1.26.0

replace github.com/rlgen/rlgen => ../..

require (
	connectrpc.com/connect v1.21.1
	github.com/google/go-cmp v0.7.0
	github.com/rlgen/rlgen v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/protobuf v1.36.12
)
