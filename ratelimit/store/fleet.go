package store

import (
	"context"
	"time"
)

// Fleet is a [Store] at which those who share its counts can be counted.
type Fleet interface {
	Store

	// Attend says that a member shares the counts whose keys begin with prefix and a colon, which holds for [Attendance], and
	// returns how many members do, this one included. It changes no count, and may be repeated. Names of members are
	// unique, and short.
	Attend(ctx context.Context, prefix, member string) (members int, err error)
}

// Attendance is how long a [Fleet] counts a member since it last attended.
const Attendance = time.Minute
