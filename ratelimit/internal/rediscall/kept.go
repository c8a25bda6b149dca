package rediscall

import (
	"context"
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

// process sends cmd. After an error, of a server's that is no master any more for instance, the pool is to find the next connection.
func (k *kept) process(ctx context.Context, cmd redis.Cmder) (err error) {
	if k.conn == nil {
		k.conn = k.client.Conn()
		time.AfterFunc(keepFor, k.giveBack)
	}
	decided := false
	defer func() {
		if !decided {
			k.drop()
		}
	}()
	err = k.conn.Process(ctx, cmd)
	decided = err == nil
	return err
}

// spares says whether the pool of a client with such options does not miss a connection. One that has invalidations for the client's
// cache to hear is missed.
func spares(o *redis.Options) bool {
	const many = 8
	return o.PoolSize >= many && (o.MaxActiveConns == 0 || o.MaxActiveConns >= many) && o.ClientSideCache == nil && o.ClientSideCacheConfig == nil
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
