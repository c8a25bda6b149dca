package stale
