// Package memstore decides limits inside the process.
//
// It is exact for one process and knows nothing of others: use it for programs of one instance, for tests, and as
// what a limiter falls back to while its Redis cannot decide. Its steps are pure functions of state, time, rules and
// cost, and are the model that the scripts of package redisstore are tested against.
//
// Read store.go first, then sliding_log.go.
package memstore
