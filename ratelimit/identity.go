package ratelimit

import (
	"context"
	"net/netip"
)

type identityKey struct{}

// identity is who is calling.
type identity struct {
	ip   netip.Addr
	user string
	plan string
}

func identityFrom(ctx context.Context) identity {
	id, _ := ctx.Value(identityKey{}).(*identity)
	if id == nil {
		return identity{}
	}
	return *id
}

// WithIP returns a context whose calls count as the client address addr in limits by ip. The zero Addr takes an
// address away. A v4 address in v6 form or behind NAT64 counts as the v4 address, a v6 address by its /64 or what
// [WithIPv6Prefix] says, and zones are dropped.
func WithIP(ctx context.Context, addr netip.Addr) context.Context {
	id := identityFrom(ctx)
	id.ip = addr
	return context.WithValue(ctx, identityKey{}, &id)
}

// WithUser returns a context whose calls count as the user id in limits by user. Any text is an id, and ids that
// differ in any byte are different users; an empty id is no user.
func WithUser(ctx context.Context, id string) context.Context {
	who := identityFrom(ctx)
	who.user = id
	return context.WithValue(ctx, identityKey{}, &who)
}

// WithPlan returns a context whose calls are those of a caller on a plan, for limits with one. An empty name is no plan.
func WithPlan(ctx context.Context, name string) context.Context {
	who := identityFrom(ctx)
	who.plan = name
	return context.WithValue(ctx, identityKey{}, &who)
}

// IPFrom returns the address that [WithIP] put into ctx, and whether there is one.
func IPFrom(ctx context.Context) (netip.Addr, bool) {
	ip := identityFrom(ctx).ip
	return ip, ip.IsValid()
}

// UserFrom returns the user that [WithUser] put into ctx, and whether there is one.
func UserFrom(ctx context.Context) (string, bool) {
	user := identityFrom(ctx).user
	return user, user != ""
}

// PlanFrom returns the plan that [WithPlan] put into ctx, and whether there is one.
func PlanFrom(ctx context.Context) (string, bool) {
	plan := identityFrom(ctx).plan
	return plan, plan != ""
}
