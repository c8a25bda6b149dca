package orders

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rlgen/rlgen/examples/shop/orders/orderspb"
)

// Register has server answer the calls of orderspb.Orders by svc.
func Register(server grpc.ServiceRegistrar, svc Orders) {
	orderspb.RegisterOrdersServer(server, rpc{svc: svc})
}

// rpc hands on the errors of limits as they are: the interceptors of package grpclimit make statuses of them.
type rpc struct {
	orderspb.UnimplementedOrdersServer
	svc Orders
}

func (r rpc) Create(ctx context.Context, req *orderspb.CreateRequest) (*orderspb.Order, error) {
	if req.GetItem() == "" {
		return nil, status.Error(codes.InvalidArgument, "item is empty")
	}
	return message(r.svc.Create(ctx, &CreateRequest{Item: req.GetItem()}))
}

func (r rpc) Get(ctx context.Context, req *orderspb.GetRequest) (*orderspb.Order, error) {
	return message(r.svc.Get(ctx, req.GetId()))
}

func (r rpc) Search(req *orderspb.SearchRequest, stream grpc.ServerStreamingServer[orderspb.Order]) error {
	found, err := r.svc.Search(stream.Context(), req.GetItem(), max(1, int(req.GetPages())))
	if err != nil {
		return err
	}
	for _, o := range found {
		if err := stream.Send(&orderspb.Order{Id: o.ID, Item: o.Item}); err != nil {
			return err
		}
	}
	return nil
}

func (r rpc) Cancel(ctx context.Context, req *orderspb.CancelRequest) (*orderspb.CancelResponse, error) {
	if err := r.svc.Cancel(ctx, req.GetId()); err != nil {
		return nil, coded(err)
	}
	return &orderspb.CancelResponse{}, nil
}

func message(o *Order, err error) (*orderspb.Order, error) {
	if err != nil {
		return nil, coded(err)
	}
	return &orderspb.Order{Id: o.ID, Item: o.Item}, nil
}

// coded is err with the code of what it means to this service; other errors stay as they are.
func coded(err error) error {
	if errors.Is(err, ErrNotFound) {
		return status.Error(codes.NotFound, err.Error())
	}
	return err
}
