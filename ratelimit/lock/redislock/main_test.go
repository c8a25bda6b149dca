package redislock_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/testdata/suite"
)

func TestMain(m *testing.M) {
	if holder, ok := os.LookupEnv(helperEnv); ok {
		os.Exit(help(holder))
	}
	// Most of these tests wait for leases and timeouts, so more run at a time than there are processors.
	suite.Draw(30)
	if err := flag.Set("test.parallel", "8"); err != nil {
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
