// Package traces holds sequences of calls and their answers: what each algorithm does, and what package storetest
// replays on every store. README.txt says how to read them.
package traces

import "embed"

// FS holds a file for each algorithm, <algorithm>.txt, or one for each of its subjects, <algorithm>_<subject>.txt.
//
//go:embed *-*.txt gcra.txt
var FS embed.FS
