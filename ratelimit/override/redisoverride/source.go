// Package redisoverride reads the overrides of limits from a hash in Redis, which all instances of a service see:
//
//	watcher, err := override.New(limiter, []override.Source{override.File(path), redisoverride.New(client)})
//
// A field of the hash is the name of a limit, and its value what is to hold in place of its directive. [Set] and [Delete] write it and tell
// those who watch, and so does a shell:
//
//	HSET rl:overrides Create/user "20,1s mode=shadow"
//	PUBLISH rl:overrides Create/user
//
// An instance that misses the message, or that is told nothing, reads the hash within the watcher's interval: its content decides, not who has told of it. A
// hash that is not there overrides nothing. One that Redis has lost does neither, and so does a program with its limits as they are written: what is to last
// belongs into a file.
//
// It works on a Cluster and by Sentinel as it does on one server, of which it reads the master.
//
// # Permissions
//
// Beside those of package redisstore, the user of the limiter needs (ACL SETUSER limiter …):
//
//	on >pw ~rl:* resetchannels &rl:overrides -@all +hgetall +subscribe +hello +ping +client|setname
//
// and one that sets overrides +hset, +hdel and +publish. Without the channel, and +subscribe, overrides come with the interval alone.
package redisoverride

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/rules"
)

// Key is the hash of overrides, and Channel the channel that tells of its changes.
const (
	Key     = "rl:overrides"
	Channel = "rl:overrides"
)

// budget is how long the hash is waited for.
const budget = 3 * time.Second

// New returns the source of the overrides in client's Redis. It panics if client is nil.
func New(client redis.UniversalClient) override.Source {
	if client == nil {
		panic("redisoverride: a nil client, want one of the Redis that has the overrides")
	}
	return &source{client}
}

type source struct{ client redis.UniversalClient }

func (*source) String() string { return "redis hash " + Key }

// Read reads the hash; its version is the hash of its content.
func (s *source) Read(ctx context.Context, seen string) ([]rules.Override, string, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	fields, err := s.client.HGetAll(ctx, Key).Result()
	if err != nil {
		return nil, "", fmt.Errorf("the overrides cannot be read: %w", err)
	}
	names := slices.Sorted(maps.Keys(fields))
	version := versionOf(names, fields)
	if version == seen {
		return nil, seen, nil
	}
	overrides := make([]rules.Override, len(names))
	for i, name := range names {
		overrides[i] = rules.Override{Name: name, Text: fields[name], At: rules.Place{Source: Key}}
	}
	return overrides, version, nil
}

func versionOf(names []string, fields map[string]string) string {
	sum := sha256.New()
	for _, name := range names {
		fmt.Fprint(sum, strconv.Quote(name), strconv.Quote(fields[name]))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// How long a subscription that fails is left alone.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 30 * time.Second
)

// Watch listens to the channel, again after each failure. What was said meanwhile is read once it listens again.
func (s *source) Watch(ctx context.Context, changed func()) {
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, lastPause) {
		if s.listen(ctx, changed) {
			pause = firstPause
		}
		sleep(ctx, pause)
	}
}

// listen calls changed for each message until the subscription fails, and reports whether there was one.
func (s *source) listen(ctx context.Context, changed func()) (subscribed bool) {
	channel := s.client.Subscribe(ctx, Channel)
	defer channel.Close()
	defer context.AfterFunc(ctx, func() { channel.Close() })() // a read heeds no context
	for {
		said, err := channel.Receive(ctx)
		if err != nil {
			return subscribed
		}
		subscribed = true
		if _, pong := said.(*redis.Pong); !pong {
			changed()
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Set makes text hold in place of the directive of a limit, and tells those who watch. Whether the text fits the limit, they judge: what does not is
// logged by them, and changes nothing.
func Set(ctx context.Context, client redis.UniversalClient, name, text string) error {
	if name == "" || text == "" {
		return errors.New("redisoverride: an empty name or text, want the name of a limit and what is to hold, such as 20,1s or off")
	}
	if err := client.HSet(ctx, Key, name, text).Err(); err != nil {
		return fmt.Errorf("redisoverride: %w", err)
	}
	return tell(ctx, client, name)
}

// Delete takes the override of a limit away, and tells those who watch.
func Delete(ctx context.Context, client redis.UniversalClient, name string) error {
	if err := client.HDel(ctx, Key, name).Err(); err != nil {
		return fmt.Errorf("redisoverride: %w", err)
	}
	return tell(ctx, client, name)
}

func tell(ctx context.Context, client redis.UniversalClient, name string) error {
	if err := client.Publish(ctx, Channel, name).Err(); err != nil {
		return fmt.Errorf("redisoverride: the override is written, and will be read with the watchers' interval: %w", err)
	}
	return nil
}
