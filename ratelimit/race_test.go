//go:build race

package ratelimit_test

// raced says that the race detector is on, under which pools forget what they have at random.
const raced = true
