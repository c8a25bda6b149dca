package redisurl

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	dialTimeout = time.Second
	readTimeout = 200 * time.Millisecond
	dials       = 1
)

// Open returns a client of the Redis at url. It sends nothing; the caller closes the client.
func Open(url string) (client redis.UniversalClient, err error) {
	t, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("redisurl: %w", err)
	}
	defer func() {
		if recover() != nil { // as go-redis does where a number is too large for it
			client, err = nil, errors.New("redisurl: go-redis cannot use the options in the URL: want numbers that a pool of connections can have")
		}
	}()
	if client, err = t.open(); err != nil {
		return nil, fmt.Errorf("redisurl: %w", t.explain())
	}
	return client, nil
}

// open makes a client of the target's URL.
func (t *target) open() (redis.UniversalClient, error) {
	switch t.kind {
	case sentinel:
		o, err := redis.ParseFailoverURL(t.url.String())
		if err != nil {
			return nil, err
		}
		suit(&o.DialTimeout, &o.ReadTimeout, &o.DialerRetries)
		return redis.NewFailoverClient(o), nil
	case cluster:
		o, err := redis.ParseClusterURL(t.url.String())
		if err != nil {
			return nil, err
		}
		suit(&o.DialTimeout, &o.ReadTimeout, &o.DialerRetries)
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(t.url.String())
	if err != nil {
		return nil, err
	}
	suit(&o.DialTimeout, &o.ReadTimeout, &o.DialerRetries)
	return redis.NewClient(o), nil
}

// suit sets what is zero as suits a limiter.
func suit(dial, read *time.Duration, retries *int) {
	*dial, *read, *retries = cmp.Or(*dial, dialTimeout), cmp.Or(*read, readTimeout), cmp.Or(*retries, dials)
}
