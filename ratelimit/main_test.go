package ratelimit_test

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
	suite.Draw(30)
	// The tests that run in parallel wait for failovers and for other processes.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := redistest.Main(m)
	if code == 0 {
		// A pool of go-redis that could not dial checks once a second whether it is closed.
		dialing := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
		if err := goleak.Find(dialing); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
