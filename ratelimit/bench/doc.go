// Bench measures this project beside others of its field, on a redis-server that it starts. It is a module of its own, so
// that nobody who uses the project needs theirs.
//
// It prints the ratios that the project is held to, and which of them fall short:
//
//	GOWORK=off go run -C ratelimit/bench .
//
// All that is compared is measured in turns, in one order per round that is drawn anew, and a ratio is the median of those
// of the rounds: a machine that others use, too, is slow for both. Those that are compared by the time of a call take turns of a few ms
// within a round.
//
// What calls cost by the number of processes, callers, ids, rules and limits, by counts, on a cluster, and of hot limits, it prints as the tables of
// SCALE.md, which go on to a fleet:
//
//	GOWORK=off go run -C ratelimit/bench . -scale -rounds 3 -time 1s
//
// The benchmarks of [testing] measure the same calls, for benchstat, and locks, which take turns call by call; of a free lock they say, too, whether the differences within the turns
// are more than chance:
//
//	GOWORK=off go test -run '^$' -bench Call
//	GOWORK=off go test -run '^$' -bench Lock -benchtime 3000x
package main
