package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// results remembers from run to run which test notices which mutant. What it says holds for the text of the mutated file
// and of all tests; what other files have become since, it does not see.
type results struct {
	path  string
	tests string // their sum

	mu sync.Mutex
	// By has, by the sum of mutant and tests, the test that notices it, "" of none.
	By map[string]string
	// Last has, by a mutant's name, the test that noticed it last: the one to try first.
	Last map[string]string
}

// openResults opens those of the user's cache, empty ones if they are to be found out anew.
func openResults(anew bool) (*results, error) {
	tests, err := testsSum()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	r := &results{path: filepath.Join(cache, "rlgen-mutate.json"), tests: tests, By: map[string]string{}, Last: map[string]string{}}
	text, err := os.ReadFile(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	if anew {
		r.By = map[string]string{}
	}
	return r, nil
}

func (r *results) key(m mutant) string {
	sum := sha256.Sum256([]byte(r.tests + m.file + "\n" + string(m.text)))
	return hex.EncodeToString(sum[:])
}

func (r *results) of(m mutant) (by string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by, ok = r.By[r.key(m)]
	return by, ok
}

func (r *results) last(m mutant) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Last[m.name()]
}

// put remembers a result at once: a run that is broken off has not been for nothing.
func (r *results) put(m mutant, by string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.By[r.key(m)] = by
	if by != "" && by != unending {
		r.Last[m.name()] = by
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(r.path, text, 0o600)
}
