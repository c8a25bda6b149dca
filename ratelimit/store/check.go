package store

import (
	"context"
	"log/slog"
)

// Checker is a [Store] that can tell before the first call what will go wrong.
type Checker interface {
	Store

	// Check asks whether calls of requests, of which it charges none, can be decided. An error means that they would fail: it is an
	// [*Error], of class [Misconfigured] where somebody must mend what it names, or the context's own. What lets calls pass
	// and hurts all the same is a finding. Check returns once ctx is done.
	Check(ctx context.Context, requests []Request) ([]Finding, error)
}

// Finding is something that a [Checker] has found out about a store that can decide.
type Finding struct {
	// Level is [slog.LevelWarn] for what will hurt, and [slog.LevelInfo] for what may, or cannot be found out.
	Level slog.Level
	// Text says what was found, why it hurts, and how to mend it.
	Text string
}
