package rediscall

import (
	"regexp"

	"github.com/redis/go-redis/v9"
)

// echo matches what a server repeats of a command that it refuses. It may hold keys, and these hold ids.
var echo = regexp.MustCompile(`,? with args beginning with:[^\n]*|(?: to access the) '[^\n]*'(?: key)`)

// discreet is err without what a server repeats of a call's words.
func discreet(err error) error {
	text := err.Error()
	if without := echo.ReplaceAllString(text, ""); without != text {
		return answer(without)
	}
	return err
}

// answer is an error that a server answered with.
type answer string

var _ redis.Error = answer("")

func (a answer) Error() string { return string(a) }

// RedisError marks it as a server's.
func (answer) RedisError() {}
