package gen_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestWild is as TestCorpus for the packages of each testdata/wild/*.txtar, in directories of one module that have the
// archives' names. Marks that say TORTURE-IGNORE stand in files that the go command does not look into.
func TestWild(t *testing.T) {
	archives, err := filepath.Glob("../testdata/wild/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	module := newModule(t)
	var all []verdict
	for _, v := range variants[:2] {
		dir := filepath.Join(module, v.name)
		var places []place
		for _, path := range archives {
			places = append(places, extract(t, path, dir, "example.com/m/"+v.name+"/", v.directive)...)
		}
		all = append(all, judge(t, v.name, dir, []string{"./..."}, places)...)
	}
	checkVerdicts(t, all)
	compareVerdicts(t, "../testdata/wild/verdicts.tsv", all)
	vetPlatforms(t, module, []string{"./..."})
}

// extract writes the files of an archive below dir, with directives in the places of marks.
func extract(t *testing.T, path, dir, module string, directive func(place) string) []place {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var places []place
	for _, f := range archive.Files {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar") + "/" + f.Name
		text := f.Data
		if strings.HasSuffix(name, ".go") {
			found := marks(name, text)
			places = append(places, found...)
			text = annotate(text, found, directive)
			text = bytes.ReplaceAll(text, []byte("example.com/m/"), []byte(module))
		}
		write(t, filepath.Join(dir, name), text)
	}
	return places
}
