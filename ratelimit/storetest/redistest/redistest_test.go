package redistest_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

func TestMain(m *testing.M) {
	code := redistest.Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

func TestStandalone(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	if err := client.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	if again := redistest.Standalone(t).Client(t); again.Options().Addr != client.Options().Addr {
		t.Errorf("second Standalone is at %s, want that at %s", again.Options().Addr, client.Options().Addr)
	}
}

func TestKill(t *testing.T) {
	server := redistest.Start(t)
	server.Kill(t)
	if err := server.Client(t).Ping(context.Background()).Err(); err == nil {
		t.Error("Ping of a killed server succeeds, want an error")
	}
}

func TestCluster(t *testing.T) {
	client := redistest.NewCluster(t).Client(t)
	prefix := redistest.Prefix(t)
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := client.Set(context.Background(), prefix+key, key, 0).Err(); err != nil {
			t.Errorf("Set of %s: %v", key, err)
		}
	}
}

func TestSentinel(t *testing.T) {
	client := redistest.NewSentinel(t).Client(t)
	if err := client.Set(context.Background(), redistest.Prefix(t), 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
}
