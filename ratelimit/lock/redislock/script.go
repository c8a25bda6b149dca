package redislock

import (
	_ "embed"
	"strings"

	"github.com/rlgen/rlgen/ratelimit/internal/rediscall"
)

var (
	//go:embed queue.lua
	queueLua string
	//go:embed lock_acquire.lua
	lockAcquireLua string
	//go:embed lock_renew.lua
	lockRenewLua string
	//go:embed lock_release.lua
	lockReleaseLua string
	//go:embed semaphore_acquire.lua
	semaphoreAcquireLua string
	//go:embed semaphore_renew.lua
	semaphoreRenewLua string
	//go:embed semaphore_release.lua
	semaphoreReleaseLua string
)

// scripts are those of one kind of thing that is held.
type scripts struct{ acquire, renew, release rediscall.Script }

// texts are the scripts of locks, and those of semaphores, as they are sent.
func texts() (locks, semaphores [3]string) {
	locks = [3]string{lockAcquireLua, lockRenewLua, lockReleaseLua}
	semaphores = [3]string{semaphoreAcquireLua, semaphoreRenewLua, semaphoreReleaseLua}
	for i := range locks {
		locks[i], semaphores[i] = withQueue(locks[i]), withQueue(semaphores[i])
	}
	return locks, semaphores
}

// withQueue puts queue.lua where a script asks for it: after what does without, which a server then need not set up.
func withQueue(text string) string {
	return strings.Replace(text, "\n-- queue.lua\n", "\n"+queueLua, 1)
}

func newScripts(texts [3]string) scripts {
	return scripts{rediscall.NewScript(texts[0]), rediscall.NewScript(texts[1]), rediscall.NewScript(texts[2])}
}
