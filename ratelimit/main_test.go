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
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
