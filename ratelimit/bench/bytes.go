package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/redis/go-redis/v9"
)

// logged is how many calls of one id are logged where what they leave is measured: as many as [twoRules] allow.
const logged = 100

// leaves measures what calls of one id leave in the server, besides the key, by their number.
func leaves(open open) prepare {
	return func(l *lab) (measurement, error) {
		call, err := open(l)
		if err != nil {
			return nil, err
		}
		return func(time.Duration) (sample, error) {
			for range logged {
				if err := call(0); err != nil {
					return sample{}, err
				}
			}
			ctx := context.Background()
			n, err := l.admin.MemoryUsage(ctx, key(0), 0).Result()
			if err != nil {
				return sample{}, err
			}
			l.admin.Set(ctx, key(0), "", 0)
			empty, err := l.admin.MemoryUsage(ctx, key(0), 0).Result()
			return sample{bytes: float64(n-empty) / logged}, err
		}, nil
	}
}

// uuidMembers logs calls as others do: the time as the score, and a UUID as the member.
func uuidMembers(l *lab) (call, error) {
	client, ctx := l.client(), context.Background()
	return func(id int) error {
		return client.ZAdd(ctx, key(id), redis.Z{Score: float64(time.Now().UnixMicro()), Member: uuid()}).Err()
	}, nil
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}
