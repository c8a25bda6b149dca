package rediscall

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// keepFor is how long a connection is kept from its pool.
const keepFor = 100 * time.Millisecond

// kept is a connection that calls use one after the other, each while it holds mu.
type kept struct {
	client *redis.Client // whose connection it is; nil where none is kept

	mu   sync.Mutex
	conn *redis.Conn // nil while none is kept
}

func (k *kept) process(ctx context.Context, cmd redis.Cmder) (err error) {
	if k.conn == nil {
		k.conn = k.client.Conn()
		time.AfterFunc(keepFor, k.giveBack)
	}
	sound := false
	defer func() {
		if !sound {
			k.drop()
		}
	}()
	err = k.conn.Process(ctx, cmd)
	sound = err == nil || errors.As(err, new(redis.Error))
	return err
}

// giveBack waits for the call that is under way.
func (k *kept) giveBack() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop()
}

// drop gives the connection back to the pool, which closes one that is broken. The caller holds mu.
func (k *kept) drop() {
	if k.conn != nil {
		_ = k.conn.Close()
		k.conn = nil
	}
}
