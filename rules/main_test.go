package rules

import (
	"os"
	"testing"

	"github.com/rlgen/rlgen/testdata/suite"
)

func TestMain(m *testing.M) {
	suite.Draw(100)
	os.Exit(m.Run())
}
