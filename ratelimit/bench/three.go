package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// cluster is the lab's cluster of three masters, each with a replica.
func (l *lab) cluster() *redistest.Cluster {
	if l.three == nil {
		l.three = redistest.StartCluster(l)
	}
	return l.three
}

// clusterClient is a client of the cluster as [lab.client] is one of the server.
func (l *lab) clusterClient() *redis.ClusterClient {
	return l.cluster().Client(l, func(o *redis.ClusterOptions) { o.ContextTimeoutEnabled = true })
}

// clusterTake asks for one of ids at the cluster.
func clusterTake(l *lab) (call, error) {
	s, err := redisstore.New(l.clusterClient(), redisstore.WithBudget(10*time.Second))
	return take(context.Background(), s, asks(compactLog, twoRules), false), err
}

// clusterEvalsha sends the command that [clusterTake] sends with one of them.
func clusterEvalsha(send func(*lab, *redis.ClusterClient) (processor, error)) open {
	return func(l *lab) (call, error) {
		words, err := wordsOf(l)
		if err != nil {
			return nil, err
		}
		ours, err := clusterTake(l)
		if err != nil {
			return nil, err
		}
		for id := range 100 { // tells all masters what the script is
			if err := ours(id); err != nil {
				return nil, err
			}
		}
		client := l.clusterClient()
		p, err := send(l, client)
		return func(id int) error {
			args, ctx := append([]any(nil), words...), context.Background()
			args[3] = key(id)
			return p.Process(ctx, redis.NewIntSliceCmd(ctx, args...))
		}, err
	}
}

// processor sends commands.
type processor interface {
	Process(context.Context, redis.Cmder) error
}

func oneByOne(_ *lab, client *redis.ClusterClient) (processor, error) { return client, nil }

func byAutoPipeline(l *lab, client *redis.ClusterClient) (processor, error) {
	p, err := client.AutoPipeline()
	if err == nil {
		l.Cleanup(func() { p.Close() })
	}
	return p, err
}
