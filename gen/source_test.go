package gen

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMentionsSpecimens holds the scan of bytes to what package rules says of the comments in testdata/directives.
func TestMentionsSpecimens(t *testing.T) {
	tables, err := filepath.Glob("../testdata/directives/*.txt")
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
			comment := lines.Text()
			if comment == "" || comment[0] == '\t' || comment[0] == '#' {
				continue
			}
			if said, err := strconv.Unquote(comment); err == nil {
				comment = said
			}
			for _, file := range []string{"package p\n\n" + comment + "\n", "package p\n\nvar x int " + comment + "\n"} {
				if want := matches(comment); want && !mentions([]byte(file)) {
					t.Errorf("mentions(%q) = false, want true", file)
				}
			}
		}
	}
}
