// Package redisoverride reads the overrides of limits from a hash in Redis, which all instances of a service see:
//
//	watcher, err := override.New(limiter, []override.Source{override.File(path), redisoverride.New(client)})
//
// A field of the hash is the name of a limit, and its value what is to hold in place of its directive. [Set], [Delete], [Change] and [Amend]
// write it and tell those who watch, and so does a shell:
//
//	HSET rl:overrides Create/user "20,1s mode=shadow"
//	PUBLISH rl:overrides Create/user
//
// An instance that misses the message, or that is told nothing, reads the hash within the watcher's interval: its content decides, not who has told of it. A
// hash that is not there overrides nothing. One that Redis has lost does neither, and so does a program with its limits as they are written: what is to last
// belongs into a file. One of more than [MaxSize] bytes is refused whole, as one is with a name that no limit of the program has.
//
// So each service has a hash of its own, by [WithKey], where several share a Redis:
//
//	redisoverride.New(client, redisoverride.WithKey("rl:overrides:shop"))
//
// It works on a Cluster and by Sentinel as it does on one server, of which it reads the master.
//
// # Permissions
//
// Beside those of package redisstore, the user of the limiter needs (ACL SETUSER limiter …):
//
//	on >pw ~rl:* resetchannels &rl:overrides -@all +hgetall +subscribe +hello +ping +client|setname
//
// and one that sets overrides +hset, +hdel and +publish, and +eval for [Amend]. Without the channel, and +subscribe, overrides come with the interval alone. The channel is called
// as the hash is: by [WithKey], &rl:overrides:shop.
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
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/override"
	"github.com/rlgen/rlgen/rules"
)

// Key is the hash of overrides, and Channel the channel that tells of its changes, unless [WithKey] says otherwise.
const (
	Key     = "rl:overrides"
	Channel = "rl:overrides"
)

// MaxSize is the most bytes that names and texts of a hash have together.
const MaxSize = 1 << 20

// budget is how long the hash is waited for.
const budget = 3 * time.Second

// Option says which hash is meant.
type Option interface{ apply(*hash) }

type optionFunc func(*hash)

func (f optionFunc) apply(h *hash) { f(h) }

// WithKey names the hash, and the channel that tells of its changes. Services that share a Redis want one each, for a program refuses a hash whole that names
// a limit which it does not have. The default is [Key].
func WithKey(key string) Option {
	return optionFunc(func(h *hash) { h.key = key })
}

// hash is one of overrides.
type hash struct {
	client redis.UniversalClient
	key    string
}

// of is the hash that is meant in client's Redis.
func of(client redis.UniversalClient, opts []Option) hash {
	h := hash{client, Key}
	for _, o := range opts {
		o.apply(&h)
	}
	return h
}

// New returns the source of the overrides in client's Redis. It panics if client is nil, or the key empty.
func New(client redis.UniversalClient, opts ...Option) override.Source {
	h := of(client, opts)
	switch {
	case client == nil:
		panic("redisoverride: a nil client, want one of the Redis that has the overrides")
	case h.key == "":
		panic("redisoverride: an empty key, want that of the hash, or no WithKey for " + Key)
	}
	return &source{h}
}

type source struct{ hash }

func (s *source) String() string { return "redis hash " + s.key }

// Read reads the hash; its version is the hash of its content.
func (s *source) Read(ctx context.Context, seen string) ([]rules.Override, string, error) {
	fields, err := s.fields(ctx)
	if err != nil {
		return nil, "", err
	}
	overrides := s.list(fields)
	if err := CheckSize(overrides); err != nil {
		return nil, "", err
	}
	version := versionOf(overrides)
	if version == seen {
		return nil, seen, nil
	}
	return overrides, version, nil
}

// fields are names and texts, however many.
func (h hash) fields(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	fields, err := h.client.HGetAll(ctx, h.key).Result()
	if err != nil {
		return nil, fmt.Errorf("the overrides cannot be read: %w", err)
	}
	return fields, nil
}

// list is fields as overrides, by name.
func (h hash) list(fields map[string]string) []rules.Override {
	names := slices.Sorted(maps.Keys(fields))
	overrides := make([]rules.Override, len(names))
	for i, name := range names {
		overrides[i] = rules.Override{Name: name, Text: fields[name], At: rules.Place{Source: h.key}}
	}
	return overrides
}

// CheckSize says what is wrong with the size of a hash, and which are its largest fields.
func CheckSize(overrides []rules.Override) error {
	size := 0
	for i := range overrides {
		size += sizeOf(&overrides[i])
	}
	if size <= MaxSize {
		return nil
	}
	largest := slices.SortedStableFunc(slices.Values(overrides), func(a, b rules.Override) int { return sizeOf(&b) - sizeOf(&a) })
	var some []string
	for i := range largest[:min(3, len(largest))] {
		some = append(some, fmt.Sprintf("%s (%d bytes)", rules.Brief(strconv.Quote(largest[i].Name), 100), sizeOf(&largest[i])))
	}
	return fmt.Errorf("found %d bytes in %d fields, want at most %d bytes; the largest are %s: remove those that no limit needs, with rlgen override remove, or HDEL",
		size, len(overrides), MaxSize, strings.Join(some, ", "))
}

// sizeOf is how many bytes an override's name and text have.
func sizeOf(o *rules.Override) int { return len(o.Name) + len(o.Text) }

func versionOf(overrides []rules.Override) string {
	sum := sha256.New()
	for i := range overrides {
		fmt.Fprint(sum, strconv.Quote(overrides[i].Name), strconv.Quote(overrides[i].Text))
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
	channel := s.client.Subscribe(ctx, s.key)
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

// ErrUntold is of an override that is written, of which those who watch could not be told: they read it within their interval.
var ErrUntold = errors.New("redisoverride: the override is written, and will be read with the watchers' interval")

// Set makes text hold in place of the directive of a limit, and tells those who watch. Whether the text fits the limit, they judge: what does not is
// logged by them, and changes nothing.
func Set(ctx context.Context, client redis.UniversalClient, name, text string, opts ...Option) error {
	if text == "" {
		return errEmpty
	}
	_, err := Change(ctx, client, map[string]string{name: text}, opts...)
	return err
}

// Delete takes the override of a limit away, and tells those who watch.
func Delete(ctx context.Context, client redis.UniversalClient, name string, opts ...Option) error {
	_, err := Change(ctx, client, map[string]string{name: ""}, opts...)
	return err
}

var errEmpty = errors.New("redisoverride: an empty name or text, want the name of a limit and what is to hold, such as 20,1s or off")

// Change writes several overrides at once, a text for each name, and takes those away whose text is empty: nobody reads the one without the other, of limits that
// share a bucket, too. To do both at once needs +multi and +exec. It then tells those who watch, once. Told is how many they are: 0 where no program listens,
// which may be one that uses another [WithKey]; -1 on a Cluster, of which no node knows. The error is [ErrUntold] where all but that is done.
func Change(ctx context.Context, client redis.UniversalClient, texts map[string]string, opts ...Option) (told int64, err error) {
	h := of(client, opts)
	if err := h.write(ctx, texts); err != nil {
		return 0, err
	}
	return h.tell(ctx, strings.Join(slices.Sorted(maps.Keys(texts)), " "))
}

func (h hash) write(ctx context.Context, texts map[string]string) error {
	set, remove, err := sorted(texts)
	if err != nil {
		return err
	}
	switch {
	case len(set)+len(remove) == 0:
	case len(remove) == 0:
		err = h.client.HSet(ctx, h.key, set).Err()
	case len(set) == 0:
		err = h.client.HDel(ctx, h.key, remove...).Err()
	default:
		_, err = h.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, h.key, set)
			p.HDel(ctx, h.key, remove...)
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("redisoverride: %w", err)
	}
	return nil
}

func (h hash) tell(ctx context.Context, names string) (told int64, err error) {
	told, err = h.client.Publish(ctx, h.key, names).Result()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUntold, err)
	}
	if _, cluster := h.client.(*redis.ClusterClient); cluster {
		told = -1
	}
	return told, nil
}
