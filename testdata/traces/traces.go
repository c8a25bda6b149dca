// Package traces holds sequences of calls and their answers: what each algorithm does, and what package storetest
// replays on every store. README.txt says how to read them.
package traces

import "embed"

// FS holds one file for each subject, named <algorithm>_<subject>.txt.
//
//go:embed *_*.txt
var FS embed.FS
