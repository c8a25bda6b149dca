package ratelimit

import (
	"math"
	"strconv"

	"github.com/rlgen/rlgen/rules"
)

// Input is what a wrapper computes for one limit of one call: the values of its directive's when, by and cost. The
// zero Input is that of a directive without them: the limit applies, the id is the context's, the cost is 1.
type Input struct {
	text   string
	number Integer
	cost   int64
	given  uint8
}

const (
	givenText = 1 << iota
	givenInt
	givenCost
	givenSkip
)

// When says whether the limit applies to this call, and returns applies.
func (in *Input) When(applies bool) bool {
	if applies {
		in.given &^= givenSkip
	} else {
		in.given |= givenSkip
	}
	return applies
}

// By gives the id that this call counts by, in place of the context's. An empty id is no id.
func (in *Input) By(id string) {
	in.text = id
	in.given = in.given&^givenInt | givenText
}

// ByInt gives the id as [Input.By] does: its decimal text.
func (in *Input) ByInt(id Integer) {
	in.number = id
	in.given = in.given&^givenText | givenInt
}

// Cost gives the permits that this call takes, in place of 1. If the limit has a Cost, a value
// below 1 counts as 1 unless its Free is [rules.FreeAllow]. Else a cost of 0 asks the limit without
// charging it, and a negative cost makes the call fail with [ErrCost].
func (in *Input) Cost(permits int64) {
	in.cost = permits
	in.given |= givenCost
}

// id is the one that was given last, if one was.
func (in *Input) id() (id callerID, given bool) {
	if in.given&givenInt != 0 {
		return callerID{form: intID, number: in.number}, true
	}
	return idOfText(in.text), in.given&givenText != 0
}

func (in *Input) skipped() bool { return in.given&givenSkip != 0 }

// permits returns the cost of the call at a limit. An expression that is 0 for some calls would let
// these pass however often they come, so the directive has to allow that.
func (in *Input) permits(of *rules.Limit) int64 {
	switch {
	case in.given&givenCost == 0:
		return 1
	case in.cost < 1 && of.Cost != "" && of.Free != rules.FreeAllow:
		return 1
	}
	return in.cost
}

// Text returns v as a string, for ids whose type is not string itself.
func Text[T ~string | ~[]byte](v T) string { return string(v) }

// Ref returns v.String(), and for a nil pointer the empty text, which is no id.
func Ref[P interface {
	*T
	String() string
}, T any](v P) string {
	if v == nil {
		return ""
	}
	return v.String()
}

// Stringer returns v.String(), and for a nil interface the empty text, which is no id.
func Stringer(v interface{ String() string }) string {
	if v == nil {
		return ""
	}
	return v.String()
}

// Integer is an integer of any type. The zero Integer is 0.
type Integer struct {
	bits     uint64
	negative bool // and bits are those of an int64
}

// Int returns v, for ids that are integers.
func Int[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](v T) Integer {
	return Integer{bits: uint64(v), negative: v < 0}
}

// appendText appends the decimal text of i.
func (i Integer) appendText(b []byte) []byte {
	if i.negative {
		return strconv.AppendInt(b, int64(i.bits), 10)
	}
	return strconv.AppendUint(b, i.bits, 10)
}

// Bool returns "true" or "false".
func Bool[T ~bool](v T) string { return strconv.FormatBool(bool(v)) }

// Permits returns v as a cost. A value beyond int64's becomes the largest int64, which no limit allows.
func Permits[T ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr](v T) int64 {
	if v > 0 && uint64(v) > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(v)
}
