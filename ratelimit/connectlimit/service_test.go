package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/connectlimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const userID = "alice@example.com"

func alice() context.Context { return ratelimit.WithUser(context.Background(), userID) }

func asAlice() connectlimit.Option {
	return connectlimit.WithUserFunc(func(context.Context) string { return userID })
}

func per(kind rules.Kind, count int64, window time.Duration) rules.Limit {
	return rules.Limit{Kind: kind, Rules: []rules.Rule{{Count: count, Window: window}}}
}

func policy(limits ...rules.Limit) *rules.Policy {
	return &rules.Policy{Package: "example.com/shop", Type: "shop.Orders", Method: "Create", Limits: limits}
}

// orders is a limited service: Create, and Follow, a stream that asks the limits for each message.
type orders struct{ create *ratelimit.Guard }

func (o orders) take(ctx context.Context, cost int64) error {
	in := make([]ratelimit.Input, 1)
	in[0].Cost(cost)
	if _, err := o.create.Take(ctx, in...); err != nil {
		return fmt.Errorf("create an order for %s: %w", userID, err)
	}
	return nil
}

func (o orders) Create(ctx context.Context, req *connect.Request[wrapperspb.Int64Value]) (*connect.Response[emptypb.Empty], error) {
	if err := o.take(ctx, req.Msg.Value); err != nil {
		return nil, err
	}
	return connect.NewResponse(new(emptypb.Empty)), nil
}

func (o orders) Follow(ctx context.Context, s *connect.BidiStream[wrapperspb.Int64Value, emptypb.Empty]) error {
	for {
		cost, err := s.Receive()
		if err != nil {
			return nil
		}
		if err := o.take(ctx, cost.Value); err != nil {
			return err
		}
		if err := s.Send(new(emptypb.Empty)); err != nil {
			return err
		}
	}
}

const createPath, followPath = "/shop.Orders/Create", "/shop.Orders/Follow"

// server serves orders behind the interceptor, and behind what tells clients of HTTP what is left.
type server struct{ *httptest.Server }

func serve(t *testing.T, limiter *ratelimit.Limiter, p *rules.Policy, opts ...connectlimit.Option) server {
	t.Helper()
	o, with := orders{limiter.Guard(p)}, connect.WithInterceptors(connectlimit.Interceptor(opts...))
	mux := http.NewServeMux()
	mux.Handle(createPath, connect.NewUnaryHandler(createPath, o.Create, with))
	mux.Handle(followPath, connect.NewBidiStreamHandler(followPath, o.Follow, with))
	s := httptest.NewUnstartedServer(httplimit.Headers()(mux))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return server{s}
}

// protocols are those that Connect speaks.
var protocols = map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()}}

// create calls Create once, with headers in pairs. The client has the interceptor, too, which leaves its calls as they are.
func (s server) create(protocol string, cost int64, pairs ...string) error {
	opts := append([]connect.ClientOption{connect.WithInterceptors(connectlimit.Interceptor())}, protocols[protocol]...)
	req := connect.NewRequest(wrapperspb.Int64(cost))
	for i := 0; i < len(pairs); i += 2 {
		req.Header().Add(pairs[i], pairs[i+1])
	}
	_, err := connect.NewClient[wrapperspb.Int64Value, emptypb.Empty](s.Client(), s.URL+createPath, opts...).CallUnary(context.Background(), req)
	return err
}

// follow opens a stream and sends messages until one is not answered, at most n, and returns how many were and the stream's error.
func (s server) follow(protocol string, n int, pairs ...string) (answered int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opts := append([]connect.ClientOption{connect.WithInterceptors(connectlimit.Interceptor())}, protocols[protocol]...)
	stream := connect.NewClient[wrapperspb.Int64Value, emptypb.Empty](s.Client(), s.URL+followPath, opts...).CallBidiStream(ctx)
	defer stream.CloseResponse()
	defer stream.CloseRequest()
	for i := 0; i < len(pairs); i += 2 {
		stream.RequestHeader().Add(pairs[i], pairs[i+1])
	}
	for range n {
		if err := stream.Send(wrapperspb.Int64(1)); err != nil {
			break // Receive has the error
		}
		if _, err := stream.Receive(); err != nil {
			return answered, err
		}
		answered++
	}
	return answered, nil
}

// said is what a client has been told.
type said struct {
	Code       connect.Code
	Message    string
	Quota      string // the limit of QuotaFailure's violation
	Why        string // its description
	Retry      time.Duration
	RetryAfter string // the header
	Pushback   string // the trailer
}

func saidBy(t *testing.T, err error) said {
	t.Helper()
	var told *connect.Error
	if !errors.As(err, &told) {
		t.Fatalf("error = %v, want a *connect.Error", err)
	}
	got := said{
		Code: told.Code(), Message: told.Message(),
		RetryAfter: told.Meta().Get("Retry-After"), Pushback: told.Meta().Get("Grpc-Retry-Pushback-Ms"),
	}
	for _, d := range told.Details() {
		value, err := d.Value()
		if err != nil {
			t.Fatal(err)
		}
		switch d := value.(type) {
		case *errdetails.QuotaFailure:
			got.Quota, got.Why = d.Violations[0].QuotaId, d.Violations[0].Description
		case *errdetails.RetryInfo:
			got.Retry = d.RetryDelay.AsDuration()
		}
	}
	return got
}
