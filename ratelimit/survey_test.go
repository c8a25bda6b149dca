package ratelimit_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// resting is a remote store that cannot decide, and is given a rest.
type resting struct{ store.Store }

func (resting) Remote()           {}
func (resting) Resting() []string { return []string{"10.0.0.1:6379"} }
func (resting) Take(context.Context, []store.Request, bool, *store.Outcome) error {
	return &store.Error{Class: store.Unavailable, Err: errors.New("gone")}
}

func TestSurvey(t *testing.T) {
	l, err := ratelimit.New(resting{memstore.New()}, ratelimit.WithInstances(4))
	if err != nil {
		t.Fatal(err)
	}
	d, err := rules.Parse("//ratelimit:user 10,1s")
	if err != nil {
		t.Fatal(err)
	}
	p := &rules.Policy{Package: "example.com/shop/orders", Type: "orders.Orders", Method: "Create", Limits: []rules.Limit{d.Limit}}
	guard := l.Guard(p)

	s := l.Survey()
	if len(s.Policies) != 1 || s.Policies[0].Written != p || s.Policies[0].Policy != p || s.Policies[0].By != nil {
		t.Errorf("Survey().Policies = %+v, want the one that is prepared, as it is written", s.Policies)
	}
	if s.Instances != 4 || !s.Store.Remote || !slices.Equal(s.Store.Resting, []string{"10.0.0.1:6379"}) || !s.Store.Down.IsZero() {
		t.Errorf("Survey() = %+v, want 4 instances and a remote store that is given a rest and has not failed a call", s)
	}

	if err := l.Override(context.Background(), []rules.Override{{Name: "Create", Text: "20,1s"}}); err != nil {
		t.Fatal(err)
	}
	s = l.Survey()
	if now := s.Policies[0]; now.Written != p || now.By[0] == nil || now.By[0].Text != "20,1s" || now.Policy.Limits[0].Rules[0].Count != 20 {
		t.Errorf("Survey().Policies[0] = %+v, want the override beside what is written", now)
	}
	if err := l.Override(context.Background(), []rules.Override{{Name: "Destroy", Text: "20,1s"}}); err == nil || l.Survey().Refused != err.Error() {
		t.Errorf("Survey().Refused = %q, want %v", l.Survey().Refused, err)
	}

	if _, err := guard.Take(ratelimit.WithUser(context.Background(), "alice")); err != nil {
		t.Fatal(err)
	}
	if s = l.Survey(); s.Store.Down.IsZero() || s.Store.Failed.Before(s.Store.Down) || !s.Store.Refused.IsZero() {
		t.Errorf("Survey().Store = %+v, want that it has been down since the call", s.Store)
	}
}
