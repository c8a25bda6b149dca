// Package traffic is calls in the order of their times: made by a rate, or read from the log of what has been.
package traffic

import (
	"math"
	"time"
)

// Call is one call of traffic. What a log does not say of it is nil. Names of addresses, users and keys are none of one another's, whatever their texts.
type Call struct {
	At     int64 // µs since 1970, UTC
	Addr   *Name // what the address counts by, many of one network of IPv6 by the same: see [AddressID]
	User   *Name
	Key    *Name
	Cost   int64 // 1 where nothing else is said
	Status int   // of HTTP; 0 where it is not known
}

// Time is when the call was made.
func (c *Call) Time() time.Time { return time.UnixMicro(c.At).UTC() }

// Between is how long it is from one time to another, both in µs since 1970; 292 years if it is more.
func Between(from, to int64) time.Duration {
	return time.Duration(min(to-from, math.MaxInt64/1000)) * time.Microsecond
}

// Failed says whether the call is known to have ended with an error: a status of 400 or more.
func (c *Call) Failed() bool { return c.Status >= 400 }

// Source is traffic. Next fills in the next call, none of which is earlier than the one before, and returns io.EOF after the
// last one.
//
// Decided says that the calls up to a time have been taken in, and the names of all that matters later put off: see [Name.Until]. Until then a source forgets
// no name of theirs.
type Source interface {
	Next(*Call) error
	Decided(at int64)
}
