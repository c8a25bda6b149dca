package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/grpclimit"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// orders is a limited service and the handlers of its gRPC methods: Create, and Follow, a stream that calls it for each message.
type orders struct {
	create *ratelimit.Guard
	header bool // the handler sends a header before it asks the limit

	mu       sync.Mutex
	attempts []attempt
}

// attempt is a call as the server has seen it.
type attempt struct {
	at  time.Time // when it was decided
	err error
}

func newOrders(limiter *ratelimit.Limiter, limits ...rules.Limit) *orders {
	return &orders{create: limiter.Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: limits,
	})}
}

func (o *orders) Create(ctx context.Context, cost int64) error {
	in := make([]ratelimit.Input, 1)
	in[0].Cost(cost)
	_, err := o.create.Take(ctx, in...)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts = append(o.attempts, attempt{time.Now(), err})
	if err != nil {
		return fmt.Errorf("create an order for %s: %w", userID, err)
	}
	return nil
}

func (o *orders) seen() []attempt {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.attempts
}

var description = grpc.ServiceDesc{
	ServiceName: "shop.Orders",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Create",
		Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			cost, o := new(wrapperspb.Int64Value), srv.(*orders)
			if err := decode(cost); err != nil {
				return nil, err
			}
			return intercept(ctx, cost, &grpc.UnaryServerInfo{Server: srv}, func(ctx context.Context, _ any) (any, error) {
				if o.header {
					_ = grpc.SetHeader(ctx, metadata.Pairs("x-early", "1"))
				}
				return new(emptypb.Empty), o.Create(ctx, cost.Value)
			})
		},
	}},
	Streams: []grpc.StreamDesc{{
		StreamName: "Follow", ServerStreams: true, ClientStreams: true,
		Handler: func(srv any, s grpc.ServerStream) error {
			for {
				cost := new(wrapperspb.Int64Value)
				if err := s.RecvMsg(cost); err != nil {
					return nil
				}
				if err := srv.(*orders).Create(s.Context(), cost.Value); err != nil {
					return err
				}
				if err := s.SendMsg(new(emptypb.Empty)); err != nil {
					return err
				}
			}
		},
	}},
}

// listen opens a listener of network.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve starts a server for o behind the interceptors, on a free port of the loopback interface.
func serve(t *testing.T, o *orders, opts ...grpclimit.Option) (target string) {
	t.Helper()
	l := listen(t, "tcp", "127.0.0.1:0")
	serveOn(t, l, o, opts...)
	return l.Addr().String()
}

func serveOn(t *testing.T, l net.Listener, o *orders, opts ...grpclimit.Option) {
	t.Helper()
	s := grpc.NewServer(
		grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(opts...)),
		grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(opts...)),
	)
	s.RegisterService(&description, o)
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.Serve(l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(served.Wait)
	t.Cleanup(s.Stop)
}

// client calls the service at target.
type client struct{ *grpc.ClientConn }

func dial(t *testing.T, target string, opts ...grpc.DialOption) client {
	t.Helper()
	opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	c, err := grpc.NewClient(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return client{c}
}

// create calls Create once, with metadata in pairs.
func (c client) create(ctx context.Context, cost int64, pairs ...string) error {
	return c.Invoke(metadata.AppendToOutgoingContext(ctx, pairs...), "/shop.Orders/Create", wrapperspb.Int64(cost), new(emptypb.Empty))
}

// follow opens a stream and sends messages until one is not answered, at most n, and returns how many were and the stream's error.
func (c client) follow(ctx context.Context, n int, pairs ...string) (answered int, trailer metadata.MD, err error) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, pairs...))
	defer cancel()
	s, err := c.NewStream(ctx, &description.Streams[0], "/shop.Orders/Follow")
	if err != nil {
		return 0, nil, err
	}
	for range n {
		if err := s.SendMsg(wrapperspb.Int64(1)); err != nil {
			break // RecvMsg has the status
		}
		if err := s.RecvMsg(new(emptypb.Empty)); err != nil {
			return answered, s.Trailer(), err
		}
		answered++
	}
	return answered, s.Trailer(), nil
}
