package redisstore_test

import (
	"context"
	"math/rand/v2"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// chaos lets faults happen to a Sentinel's servers.
type chaos struct {
	turmoil
	sentinel        *redistest.Sentinel
	master, replica *redistest.Server
	replid          string // of the master
}

func newChaos(t *testing.T, draw *rand.Rand) soakSite {
	sentinel := redistest.StartSentinel(t)
	c := &chaos{
		turmoil:  newTurmoil(t, draw, sentinel.Master, sentinel.Replica),
		sentinel: sentinel, master: sentinel.Master, replica: sentinel.Replica,
	}
	c.turmoil.settle, c.turmoil.data = c.settle, func() string { return c.replid }
	c.mishaps = append(c.common(func() *redistest.Server { return c.master }),
		mishap{"SIGKILL, and a restart with nothing", 2, false, c.restart},
		mishap{"SIGKILL, and a promotion", 1, false, c.failOver},
		mishap{"SIGSTOP until another is promoted", 1, false, c.partition},
	)
	c.settle()
	return soakSite{&c.turmoil, false,
		func() redis.UniversalClient {
			return sentinel.Client(t, func(o *redis.FailoverOptions) {
				o.ClientName, o.ReadTimeout, o.DialerRetries = "soak", 200*time.Millisecond, 1
			})
		},
		func() []*redistest.Server { return []*redistest.Server{c.master} },
	}
}

func (c *chaos) restart() {
	c.master.Kill(c.t)
	c.master.Restart(c.t)
	c.tell(c.master, "replicaof", "no", "one") // which it began with, if it was the replica once
}

func (c *chaos) failOver() {
	c.master.Kill(c.t)
	c.wantRole(c.replica, "master")
	c.master.Restart(c.t)
}

// partition has two masters for a moment.
func (c *chaos) partition() {
	c.master.Freeze(c.t)
	c.wantRole(c.replica, "master")
	c.master.Resume(c.t)
}

// settle waits until the sentinels' master is one, and the other server follows it.
func (c *chaos) settle() {
	c.t.Helper()
	if err := redistest.Poll(c.follow); err != nil {
		c.t.Fatalf("the servers do not settle: %v", err)
	}
}

func (c *chaos) follow() error {
	addr, err := c.sentinel.MasterAddr()
	if err != nil {
		return err
	}
	if addr == c.replica.Addr() {
		c.master, c.replica = c.replica, c.master
	}
	info, err := c.role(c.master, "role:master")
	if err != nil {
		return err
	}
	c.replid = replid(info)
	if _, err := c.role(c.replica, "role:master"); err == nil {
		host, port, _ := net.SplitHostPort(addr)
		c.admins[c.replica].Do(context.Background(), "replicaof", host, port)
	}
	_, err = c.role(c.replica, "master_link_status:up")
	return err
}

// replid is what INFO calls the data of a master.
func replid(info string) string { return regexp.MustCompile(`master_replid:\w+`).FindString(info) }
