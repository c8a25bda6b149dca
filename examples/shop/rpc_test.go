package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/fx"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rlgen/rlgen/examples/shop/orders/orderspb"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/ratelimit/store"
)

// dial returns a client of the shop's gRPC.
func (r *running) dial(opts ...grpc.DialOption) orderspb.OrdersClient {
	r.t.Helper()
	conn, err := grpc.NewClient(r.grpc, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	return orderspb.NewOrdersClient(conn)
}

// calling is the context of calls that have metadata, in pairs.
func calling(t *testing.T, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), pairs...)
}

var tea = &orderspb.CreateRequest{Item: "tea"}

// search asks for pages of orders, and returns the error that ends the stream, nil for its end.
func search(ctx context.Context, client orderspb.OrdersClient, pages int) error {
	stream, err := client.Search(ctx, &orderspb.SearchRequest{Item: "tea", Pages: int32(pages)})
	for err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Who calls over HTTP and over gRPC is one caller, with one plan. A denial has what gRPC clients look for: how long to wait, and what was exceeded.
func TestCallsShareLimits(t *testing.T) {
	clock, counted := clocked()
	shop := start(t, config{}, counted)
	client, alice := shop.dial(), calling(t, "x-user", "alice")
	if status, _ := shop.order("alice"); status != http.StatusCreated {
		t.Errorf("an order over HTTP: status %d, want 201", status)
	}
	for i := range 2 {
		if _, err := client.Create(alice, tea); err != nil {
			t.Errorf("order %d over gRPC: %v", i+1, err)
		}
	}
	clock.Advance(3500 * time.Millisecond)
	var trailer metadata.MD
	_, err := client.Create(alice, tea, grpc.Trailer(&trailer))
	var wait time.Duration
	var limit string
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			wait = d.RetryDelay.AsDuration()
		case *errdetails.QuotaFailure:
			limit = d.Violations[0].QuotaId
		}
	}
	if status.Code(err) != codes.ResourceExhausted || wait != 6500*time.Millisecond || limit != "Create/user" {
		t.Errorf("the fourth order: %v with RetryInfo of %v and QuotaFailure of %q, want ResourceExhausted, 6.5s, Create/user", err, wait, limit)
	}
	if got := trailer.Get("grpc-retry-pushback-ms"); len(got) != 1 || got[0] != "6500" {
		t.Errorf("grpc-retry-pushback-ms is %q, want 6500", got)
	}
	if status, retryAfter := shop.order("alice"); status != http.StatusTooManyRequests || retryAfter != "7" {
		t.Errorf("the fourth order over HTTP: status %d, Retry-After %q, want 429 and 7", status, retryAfter)
	}
	if _, err := client.Create(t.Context(), tea); status.Code(err) != codes.Unauthenticated {
		t.Errorf("an order of nobody: %v, want Unauthenticated", err)
	}
	for user, pages := range map[string]int{"alice": 20, "paula": 200} {
		ctx := calling(t, "x-user", user)
		if err := search(ctx, client, pages); err != nil {
			t.Errorf("%s searches %d pages: %v, want all that a minute of the plan has", user, pages, err)
		}
		if err := search(ctx, client, 1); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s searches another page: %v, want ResourceExhausted", user, err)
		}
	}
}

// untilDenied is a clock that stands until a call is denied, and goes from then on.
type untilDenied struct {
	mu      sync.Mutex
	since   time.Time
	denials int
}

func (c *untilDenied) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return ratelimittest.Start()
	}
	return ratelimittest.Start().Add(time.Since(c.since))
}

func (c *untilDenied) Observe(_ context.Context, _ *ratelimit.Decision, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !errors.Is(err, ratelimit.ErrExceeded) {
		return
	}
	c.denials++
	if c.since.IsZero() {
		c.since = time.Now()
	}
}

// A client with gRPC's own retry policy, which would retry at once, waits for as long as the shop says, and passes.
func TestRetryPolicyHeedsPushback(t *testing.T) {
	clock := new(untilDenied)
	counted := fx.Provide(
		func() store.Store { return memstore.New(memstore.WithClock(clock.Now)) },
		fx.Annotate(func() ratelimit.Observer { return clock }, fx.ResultTags(`group:"ratelimit.observers"`)),
	)
	shop := start(t, config{overrides: limits(t, "Create/user: 1,300ms")}, counted)
	client := shop.dial(grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{"service": "shop.orders.v1.Orders"}], "retryPolicy": {
		"maxAttempts": 2, "initialBackoff": "0.000001s", "maxBackoff": "0.000001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]}}]}`))
	alice := calling(t, "x-user", "alice")
	for i := range 2 {
		if _, err := client.Create(alice, tea); err != nil {
			t.Errorf("order %d: %v, want it placed: the second attempt comes 300ms after the first, or later", i+1, err)
		}
	}
	if err := search(calling(t, "x-user", "alice"), client, 21); status.Code(err) != codes.InvalidArgument {
		t.Errorf("21 pages of 20: %v, want InvalidArgument", err)
	}
	if got := fmt.Sprint(clock.denials); got != "1" {
		t.Errorf("%s calls were denied for want of room, want one: the first attempt of the second order", got)
	}
}
