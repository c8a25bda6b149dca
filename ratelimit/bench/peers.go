package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"
	"github.com/zeromicro/go-zero/core/breaker"
	"github.com/zeromicro/go-zero/core/limit"
	"github.com/zeromicro/go-zero/core/logx"
	zeroredis "github.com/zeromicro/go-zero/core/stores/redis"
	"golang.org/x/time/rate"

	"github.com/rlgen/rlgen/rules"
)

// keys are those of all ids.
func keys() []string {
	all := make([]string, ids)
	for id := range all {
		all[id] = key(id)
	}
	return all
}

// redisRate asks as many of the two rules as are said, one call each, the second only if the first allows.
func redisRate(calls int) open {
	limits := []redis_rate.Limit{
		{Rate: 100, Burst: 100, Period: time.Minute},
		{Rate: 10, Burst: 10, Period: time.Second},
	}[:calls]
	return func(l *lab) (call, error) {
		limiter, ctx := redis_rate.NewLimiter(l.client()), context.Background()
		names := [][]string{keys(), keys()}
		for id := range names[1] {
			names[1][id] += "/2"
		}
		return func(id int) error {
			for i, limit := range limits {
				res, err := limiter.Allow(ctx, names[i][id], limit)
				if err != nil || res.Allowed == 0 {
					return err
				}
			}
			return nil
		}, nil
	}
}

func ulule(l *lab) (call, error) {
	s, err := ululestore.NewStoreWithOptions(l.client(), limiter.StoreOptions{Prefix: "ulule"})
	if err != nil {
		return nil, err
	}
	lim, ctx, keys := limiter.New(s, limiter.Rate{Period: time.Minute, Limit: 100}), context.Background(), keys()
	return func(id int) error {
		_, err := lim.Get(ctx, keys[id])
		return err
	}, nil
}

func throttle(l *lab) (call, error) {
	s, err := throttledstore.NewCtx(l.client(), "throttled:")
	if err != nil {
		return nil, err
	}
	lim, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerMin(100), MaxBurst: 99})
	ctx, keys := context.Background(), keys()
	return func(id int) error {
		_, _, err := lim.RateLimitCtx(ctx, keys[id], 1)
		return err
	}, err
}

func goZero(l *lab) (call, error) {
	logx.Disable()
	lim := limit.NewPeriodLimit(60, 100, zeroredis.New(l.redis().Addr()), "zero:")
	ctx, keys := context.Background(), keys()
	return func(id int) error {
		_, err := lim.TakeCtx(ctx, keys[id])
		if errors.Is(err, breaker.ErrServiceUnavailable) { // it sheds calls of a machine that is slow for a moment
			return nil
		}
		return err
	}, nil
}

// rueidisClient is the client that pipelines by itself, which connects by the options that it has by default, but that it caches nothing.
func rueidisClient(l *lab) (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{l.redis().Addr()}, DisableCache: true})
	if err == nil {
		l.Cleanup(client.Close)
	}
	return client, err
}

// rueidisLimiter asks one rule of a fixed window as rueidislimiter does (https://github.com/redis/rueidis, folder rueidislimiter, limiter.go
// as of 2025), which is no module that could be required. Of each id it has two keys in one slot: a count, and when that ends. A decision is one script
// that is told the cost, the client's clock and when a window ends that begins by it, in ms. The script gets the end, and sets both keys anew where
// there is none or it is over, for a second longer than the window; then it adds the cost, denied or not, and returns the count and the end. The client
// builds the keys and the digits of all numbers in one buffer of a pool, and reads the reply as an array of two integers, by which it decides.
func rueidisLimiter(l *lab) (call, error) {
	client, err := rueidisClient(l)
	if err != nil {
		return nil, err
	}
	const window, count, cost = time.Minute, 100, 1
	script := rueidis.NewLuaScript(`local clock, ends = tonumber(ARGV[3]), tonumber(redis.call('get', KEYS[2]))
if not ends or ends < clock then
  ends = tonumber(ARGV[2])
  redis.call('set', KEYS[1], 0, 'pxat', ends + 1000)
  redis.call('set', KEYS[2], ends, 'pxat', ends + 1000)
end
return {redis.call('incrby', KEYS[1], tonumber(ARGV[1])), ends}`)
	buffers := sync.Pool{New: func() any { return new([128]byte) }}
	ctx, keys := context.Background(), keys()
	return func(id int) error {
		room := buffers.Get().(*[128]byte)
		defer buffers.Put(room)
		text := room[:0]
		since := func(start int) string { return rueidis.BinaryString(text[start:]) }
		now := time.Now().UTC()
		text = append(append(append(text, "rate:{"...), keys[id]...), '}')
		counts := since(0)
		at := len(text)
		text = append(append(text, counts...), ":ex"...)
		ends := since(at)
		at = len(text)
		text = strconv.AppendInt(text, cost, 10)
		costs := since(at)
		at = len(text)
		text = strconv.AppendInt(text, now.Add(window).UnixMilli(), 10)
		next := since(at)
		at = len(text)
		text = strconv.AppendInt(text, now.UnixMilli(), 10)
		reply, err := script.Exec(ctx, client, []string{counts, ends}, []string{costs, next, since(at)}).ToArray()
		if err != nil {
			return err
		}
		var decision struct {
			allowed         bool
			remaining, ends int64
		}
		counted, err := reply[0].ToInt64()
		if err != nil {
			return err
		}
		decision.ends, err = reply[1].ToInt64()
		decision.allowed, decision.remaining = counted <= count, max(0, count-counted)
		return err
	}, nil
}

// rueidisLeast asks the least that one rule of a fixed window can ask of a server, in one key and by its clock, and does not read the reply.
func rueidisLeast(l *lab) (call, error) {
	client, err := rueidisClient(l)
	if err != nil {
		return nil, err
	}
	script := rueidis.NewLuaScript(`local n = redis.call('INCRBY', KEYS[1], ARGV[1])
if n == tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return {n, redis.call('PTTL', KEYS[1])}`)
	ctx, keys := context.Background(), keys()
	return func(id int) error {
		return script.Exec(ctx, client, []string{keys[id]}, []string{"1", "60000"}).Error()
	}, nil
}

// emptyAutoPipeline sends one script that does nothing for each call, as go-redis batches them.
func emptyAutoPipeline(l *lab) (call, error) {
	client, ctx, keys := l.client(), context.Background(), keys()
	sha, err := client.ScriptLoad(ctx, "return {1}").Result()
	if err != nil {
		return nil, err
	}
	pipeline, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	l.Cleanup(func() { pipeline.Close() })
	return func(id int) error {
		return pipeline.Process(ctx, redis.NewIntSliceCmd(ctx, "evalsha", sha, 1, keys[id], 1))
	}, nil
}

func goLimiter(rule rules.Rule) open {
	return func(l *lab) (call, error) {
		s, err := memorystore.New(&memorystore.Config{Tokens: uint64(rule.Count), Interval: rule.Window})
		if err != nil {
			return nil, err
		}
		ctx, keys := context.Background(), keys()
		l.Cleanup(func() { s.Close(ctx) })
		return func(id int) error {
			_, _, _, ok, err := s.Take(ctx, keys[id])
			if err != nil {
				return err
			}
			return allowed(rule, ok)
		}, nil
	}
}

func timeRate(*lab) (call, error) {
	lim := rate.NewLimiter(rate.Every(time.Minute/100), 100)
	return func(int) error {
		lim.Allow()
		return nil
	}, nil
}
