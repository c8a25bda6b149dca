package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/testdata/suite"
)

// silent has go-redis say nothing of the connections that break, which is what most tests here are about.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	suite.Draw(quickDraws)
	// Most of these tests wait for servers and timeouts, so more run at a time than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	redis.SetLogger(silent{})
	go machine.run()
	code := redistest.Main(m)
	close(machine.over)
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
