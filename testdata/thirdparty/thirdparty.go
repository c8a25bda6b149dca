// Package thirdparty has services that embed interfaces of other modules, each beside a limited method of its own.
package thirdparty

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type Conn interface {
	grpc.ClientConnInterface
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type ServerStream interface {
	grpc.ServerStream
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Pull has the identity of the stream's context.
type Pull interface {
	grpc.ServiceRegistrar
	//ratelimit:user 10,1s
	Stream(in grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error
	//ratelimit:user 10,1s
	Both(in grpc.BidiStreamingServer[grpc_health_v1.HealthCheckRequest, grpc_health_v1.HealthCheckResponse]) error
}

type Health interface {
	grpc_health_v1.HealthServer
	//ratelimit:user 10,1s
	Check(ctx context.Context, req *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error)
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Unsafe has an unexported method only.
type Unsafe interface {
	grpc_health_v1.UnsafeHealthServer
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Message interface {
	proto.Message
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Descriptor has unexported methods of another module.
type Descriptor interface {
	protoreflect.FileDescriptor
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Tracer has an unexported method of a package of its own.
type Tracer interface {
	trace.Tracer
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Telemetry has unexported methods of two packages.
type Telemetry interface {
	trace.TracerProvider
	metric.MeterProvider
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Meter has a directive for all of its methods, and an unexported one.
//
//ratelimit:global 10,1s
type Meter interface {
	metric.Meter
	Own(ctx context.Context) error
}

type Tx interface {
	pgx.Tx
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

// Rows limits what it embeds.
//
//ratelimit:global 10,1s deny=zero
type Rows interface {
	pgx.Rows
}

type Core interface {
	zapcore.Core
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Encoder interface {
	zapcore.Encoder
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Registry interface {
	prometheus.Registerer
	prometheus.Gatherer
	prometheus.Collector
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}

type Metric interface {
	prometheus.Histogram
	//ratelimit:user 10,1s
	Own(ctx context.Context) error
}
