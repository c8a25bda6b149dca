package dashboard_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// silent has go-redis say nothing of the connections that tests break.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	// Most of these tests wait for the next second of a page, so more run at a time than there are processors.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	code := redistest.Main(m)
	if code == 0 {
		// A pool of go-redis's that could not dial looks once a second whether it is closed.
		dialling := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
		if err := goleak.Find(dialling); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
