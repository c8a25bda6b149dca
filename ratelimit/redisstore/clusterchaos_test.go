package redisstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// clusterChaos lets faults happen to the masters of a Cluster.
type clusterChaos struct {
	turmoil
	shards []*clusterShard
}

// clusterShard is a master of a Cluster and its replica, which take turns.
type clusterShard struct {
	master, replica *redistest.Server
	replid          string // of the master
}

func newClusterChaos(t *testing.T, draw *rand.Rand) soakSite {
	cluster := redistest.StartCluster(t)
	c := &clusterChaos{turmoil: newTurmoil(t, draw, append(cluster.Masters[:len(cluster.Masters):len(cluster.Masters)], cluster.Replicas...)...)}
	for i := range cluster.Masters {
		c.shards = append(c.shards, &clusterShard{master: cluster.Masters[i], replica: cluster.Replicas[i]})
	}
	c.turmoil.settle, c.turmoil.data = c.settle, c.data
	c.mishaps = append(c.common(func() *redistest.Server { return c.one().master }),
		mishap{"SIGKILL, and a restart with nothing", 1, false, c.restart},
		mishap{"SIGKILL, and a promotion", 1, false, c.failOver},
		mishap{"CLUSTER FAILOVER", 1, false, func() { c.promote(c.one()) }},
		mishap{"a slot moves with its keys", 2, false, c.reshard},
	)
	c.settle()
	return soakSite{&c.turmoil, true,
		func() redis.UniversalClient {
			return cluster.Client(t, func(o *redis.ClusterOptions) {
				o.ClientName, o.ReadTimeout, o.DialerRetries = "soak", 200*time.Millisecond, 1
			})
		},
		c.masters,
	}
}

func (c *clusterChaos) one() *clusterShard { return c.shards[c.draw.IntN(len(c.shards))] }

func (c *clusterChaos) masters() (all []*redistest.Server) {
	for _, s := range c.shards {
		all = append(all, s.master)
	}
	return all
}

func (c *clusterChaos) data() string {
	var all []string
	for _, s := range c.shards {
		all = append(all, s.replid)
	}
	return strings.Join(all, " ")
}

func (c *clusterChaos) restart() {
	s := c.one()
	s.master.Kill(c.t)
	s.master.Restart(c.t)
}

func (c *clusterChaos) failOver() {
	s := c.one()
	s.master.Kill(c.t)
	c.tell(s.replica, "cluster", "failover", "takeover")
	c.wantRole(s.replica, "master")
	s.master.Restart(c.t)
}

func (c *clusterChaos) promote(s *clusterShard) {
	c.tell(s.replica, "cluster", "failover")
	c.wantRole(s.replica, "master")
}

// reshard moves the slot of a key that calls ask for from its master to another's.
func (c *clusterChaos) reshard() {
	c.t.Helper()
	for _, i := range c.draw.Perm(len(c.shards)) {
		from, to := c.shards[i], c.shards[(i+1)%len(c.shards)]
		key, err := c.admins[from.master].RandomKey(context.Background()).Result()
		if err != nil {
			continue // it has none
		}
		slot := c.admins[from.master].ClusterKeySlot(context.Background(), key).Val()
		c.tell(to.master, "cluster", "setslot", slot, "importing", c.id(from.master))
		c.tell(from.master, "cluster", "setslot", slot, "migrating", c.id(to.master))
		c.drain(slot, from.master, to.master)
		for _, s := range []*clusterShard{to, from} {
			c.tell(s.master, "cluster", "setslot", slot, "node", c.id(to.master))
		}
		return
	}
}

// drain moves all keys of a slot.
func (c *clusterChaos) drain(slot int64, from, to *redistest.Server) {
	c.t.Helper()
	ctx := context.Background()
	host, port, _ := net.SplitHostPort(to.Addr())
	if err := redistest.Poll(func() error {
		keys, err := c.admins[from].ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		for _, key := range keys {
			if err := c.admins[from].Migrate(ctx, host, port, key, 0, 10*time.Second).Err(); err != nil {
				return err
			}
		}
		return fmt.Errorf("%d keys were in slot %d, want none left", len(keys), slot)
	}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clusterChaos) id(server *redistest.Server) string {
	return c.admins[server].Do(context.Background(), "cluster", "myid").Val().(string)
}

// settle waits until each shard has one master, whom the other follows, and all nodes agree that all slots have one.
func (c *clusterChaos) settle() {
	c.t.Helper()
	if err := redistest.Poll(c.follow); err != nil {
		c.t.Fatalf("the servers do not settle: %v", err)
	}
}

func (c *clusterChaos) follow() error {
	for _, s := range c.shards {
		if _, err := c.role(s.master, "role:slave"); err == nil {
			s.master, s.replica = s.replica, s.master
		}
		info, err := c.role(s.master, "role:master")
		if err != nil {
			return err
		}
		s.replid = replid(info)
		if _, err := c.role(s.replica, "master_link_status:up"); err != nil {
			return err
		}
	}
	for _, admin := range c.admins {
		info, err := admin.ClusterInfo(context.Background()).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return fmt.Errorf("%v: %s", err, info)
		}
	}
	return nil
}
