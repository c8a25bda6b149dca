package redisstore

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

//go:embed lone.lua
var loneLua string

const (
	loneKeys  = 16   // of which two servers have all in one of 32,768 cases, where keys are handed out by chance
	loneConns = 4    // by which they are set in turn, and asked for
	loneTime  = 5000 // ms for which they are there
)

// lone looks whether the client's one server is one: what hands its connections out to several, or its commands by their first keys, has each of them count by itself.
// Where that cannot be found out, nothing is said: other parts of the check fail of the same.
func (c *check) lone(ctx context.Context) {
	client, ok := c.store.client.(interface {
		ofOneServer
		Conn() *redis.Conn
	})
	if !ok {
		return
	}
	n := min(loneConns, max(1, client.Options().PoolSize))
	for range 2 { // a server that is replaced meanwhile has lost what was set, once
		if !c.several(ctx, client.Conn, n) {
			return
		}
	}
	c.find(slog.LevelWarn, "several servers answer the client, which do not have the same keys, as where a balancer or proxy shares connections or keys out: "+
		"each of them counts by itself, and up to as many times the limits pass as there are: give the client the address of one, or make it with redis.NewClusterClient or redis.NewRing")
}

// last is 1 for what is asked last.
func last(is bool) int {
	if is {
		return 1
	}
	return 0
}

// several says whether keys that are set by n connections in turn are not all there for each of these.
func (c *check) several(ctx context.Context, conn func() *redis.Conn, n int) bool {
	conns := make([]*redis.Conn, n)
	for i := range conns {
		conns[i] = conn()
		defer conns[i].Close()
	}
	name, keys := rand.Text(), make([]string, loneKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s:%s:%d", c.keys[0], name, i)
		if _, err := conns[i%n].Eval(ctx, loneLua, keys[i:i+1], loneTime, 0).Int(); err != nil {
			return false
		}
	}
	for i := range conns {
		if there, err := conns[i].Eval(ctx, loneLua, keys, 0, last(i == n-1)).Int(); err == nil && there < len(keys) {
			return true
		}
	}
	return false
}
