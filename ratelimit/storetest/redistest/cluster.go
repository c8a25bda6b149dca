package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const (
	masters = 3
	slots   = 16384
)

// Cluster is a Redis Cluster of three masters, each with one replica.
type Cluster struct {
	// Masters and Replicas are as they were at the start; Replicas[i] follows Masters[i].
	Masters, Replicas []*Server
}

// NewCluster returns the cluster that the package's tests share. A test must not flush, stop or reconfigure it, and
// names its keys by [Prefix].
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	return shared.cluster.get(t, startCalm)
}

// StartCluster starts a cluster that only this test uses, and stops it when the test ends.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	need(t)
	c, err := startCluster(startFor(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, n := range c.nodes() {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

func (c *Cluster) nodes() []*Server { return append(c.Masters[:masters:masters], c.Replicas...) }

// Client returns a client of the cluster that is closed when the test ends. Each of opts may change its options.
func (c *Cluster) Client(t testing.TB, opts ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	o := &redis.ClusterOptions{Addrs: c.Addrs()}
	for _, opt := range opts {
		opt(o)
	}
	client := redis.NewClusterClient(o)
	t.Cleanup(func() { client.Close() })
	return client
}

// startCalm starts a cluster for all tests, in which no node is taken for dead that a busy machine has stopped for some seconds.
func startCalm() (*Cluster, error) {
	c, err := startCluster(startShared)
	if err != nil {
		return nil, err
	}
	for _, n := range c.nodes() {
		client := redis.NewClient(&redis.Options{Addr: n.Addr()})
		defer client.Close()
		if err := client.ConfigSet(context.Background(), "cluster-node-timeout", "60000").Err(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func startCluster(start starter) (*Cluster, error) {
	c := &Cluster{}
	for i := range 2 * masters {
		node, err := start(func(port int, dir string) []string {
			return append(standalone(port, dir), "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
				"--cluster-replica-validity-factor", "0",
				"--repl-ping-replica-period", "1") // a replica is not told of before its master has written once
		})
		if err != nil {
			return nil, err
		}
		if i < masters {
			c.Masters = append(c.Masters, node)
		} else {
			c.Replicas = append(c.Replicas, node)
		}
	}
	return c, c.join()
}

// join makes a cluster of the nodes.
func (c *Cluster) join() error {
	ctx := context.Background()
	var clients []*redis.Client
	for i, n := range c.nodes() {
		client := redis.NewClient(&redis.Options{Addr: n.Addr()})
		defer client.Close()
		clients = append(clients, client)
		if err := client.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
		host, port, _ := net.SplitHostPort(n.Addr())
		for _, other := range clients[:i] { // all meet all, which is quicker than to let word spread
			if err := other.ClusterMeet(ctx, host, port).Err(); err != nil {
				return err
			}
		}
	}
	for i := range masters {
		if err := clients[i].ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			return err
		}
	}
	if err := pollInfo(clients, "cluster_known_nodes:"+strconv.Itoa(2*masters), clusterInfo); err != nil {
		return err
	}
	for i := range masters {
		id, err := clients[i].Do(ctx, "cluster", "myid").Text()
		if err != nil {
			return err
		}
		if err := Poll(func() error { return clients[masters+i].ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	if err := pollInfo(clients, "cluster_state:ok", clusterInfo); err != nil {
		return err
	}
	if err := pollInfo(clients[masters:], "master_link_status:up", replicationInfo); err != nil {
		return err
	}
	return Poll(func() error { return everyoneKnows(clients) })
}

// everyoneKnows returns an error until every node tells of every range of slots with its replica.
func everyoneKnows(clients []*redis.Client) error {
	for _, client := range clients {
		ranges, err := client.Do(context.Background(), "cluster", "slots").Slice()
		if err != nil {
			return err
		}
		nodes := 0
		for _, r := range ranges {
			nodes += len(r.([]any)) - 2 // beside its first and last slot
		}
		if nodes != 2*masters {
			return fmt.Errorf("a node tells of %d nodes with slots, want %d", nodes, 2*masters)
		}
	}
	return nil
}

func clusterInfo(client *redis.Client) (string, error) {
	return client.ClusterInfo(context.Background()).Result()
}

func replicationInfo(client *redis.Client) (string, error) {
	return client.Info(context.Background(), "replication").Result()
}

// pollInfo waits until what info says of every client has line.
func pollInfo(clients []*redis.Client, line string, info func(*redis.Client) (string, error)) error {
	return Poll(func() error {
		for _, client := range clients {
			text, err := info(client)
			if err != nil {
				return err
			}
			if !strings.Contains(text, line) {
				return fmt.Errorf("redis says\n%swant %s", text, line)
			}
		}
		return nil
	})
}
