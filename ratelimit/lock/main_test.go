package lock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rlgen/rlgen/testdata/suite"
)

func TestMain(m *testing.M) {
	suite.Draw(30)
	goleak.VerifyTestMain(m)
}
