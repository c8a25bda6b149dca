// Package bench measures this project beside others of its field, on a redis-server that it starts. It is a module of its own, so
// that nobody who uses the project needs theirs.
//
// Every benchmark takes turns: one call of each, over and over, and reports the median of each in ns.
//
//	GOWORK=off go test -run '^$' -bench . -benchtime 3000x
package bench
