package gen_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/rlgen/rlgen/gen"
)

// TestAnalyzer runs the analyzer over the packages of testdata/analyzer, whose comments say what it is to find; since
// nothing may stand behind a directive, they stand before it.
func TestAnalyzer(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../testdata/analyzer")
	if err != nil {
		t.Fatal(err)
	}
	if err := analysis.Validate([]*analysis.Analyzer{gen.Analyzer}); err != nil {
		t.Fatal(err)
	}
	analysistest.Run(t, dir, gen.Analyzer, "plain", "stale")
	analysistest.RunWithSuggestedFixes(t, dir, gen.Analyzer, "mends")
}
