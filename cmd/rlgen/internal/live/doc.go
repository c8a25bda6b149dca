// Package live looks at what limits have counted in a Redis that is in use, and sets it right.
//
// It asks by keys that package ratelimit makes of a method and an id, and never searches for any. No error that it returns has a part of a password in it.
package live
