package redislock_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

func TestMain(m *testing.M) {
	if holder, ok := os.LookupEnv(helperEnv); ok {
		os.Exit(help(holder))
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
