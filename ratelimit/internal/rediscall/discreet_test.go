package rediscall

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

// TestErrorsRepeatNoWords holds that an error says what the server does not know, and not what that was asked about.
func TestErrorsRepeatNoWords(t *testing.T) {
	for _, err := range []error{
		reply("ERR unknown command 'evalsha', with args beginning with: '7da0' '1' 'rl:user=alice@example.com:shop.Orders-Create' "),
		reply("ERR unknown command `evalsha`, with args beginning with: `7da0`, `1`, `rl:user=alice@example.com:shop.Orders-Create`, "),
		fmt.Errorf("wrapped: %w", reply("ERR unknown command 'evalsha' with args beginning with: 'rl:user=alice'")),
	} {
		failed := Explain("here", err)
		text := fmt.Sprint(failed)
		if strings.Contains(text, "alice") || !strings.Contains(text, "unknown command") || !strings.Contains(text, upgrade) {
			t.Errorf("Explain(%q) = %q, want it without the words, and what to do", err, text)
		}
		if !redis.HasErrorPrefix(failed, "unknown command") && !strings.Contains(text, "wrapped") {
			t.Errorf("Explain(%q) = %q, which is no error of a server's any more", err, text)
		}
	}
	if err := reply("OOM command not allowed"); discreet(err) != error(err) {
		t.Error("an error without words is another")
	}
	if err := Fail("here", store.Unavailable, reply("OOM command not allowed"), ""); err.Error() != "unavailable: here: OOM command not allowed" {
		t.Errorf("Fail = %q", err)
	}
}
