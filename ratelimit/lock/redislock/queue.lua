-- queue: who waits for a lock or a semaphore, in the order in which they came. It takes the place of "-- queue.lua" in the scripts that use it.
--
-- One ZSET holds it. A waiter is named <channel>:<number>, after the channel on which it hears, and has two members in it, which come
-- and go together:
--   <waiter>   by when it came: µs of the server's clock, or more, so that nobody comes before those who are there
--   !<waiter>  by until when it counts unless it asks again: µs of the server's clock, less AGO, which makes it negative
--
-- Whoever stops asking drops out LIFE later.

local LIFE = 3000 -- ms
local AGO = 4000000000000000 -- µs: later than any server's time

local function integer(n)
  return string.format('%.0f', n)
end

local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function new_queue(key)
  local self = {}

  function self.leave(waiter)
    redis.call('ZREM', key, waiter, '!' .. waiter)
  end

  -- first returns who is to be served next, false if nobody waits.
  function self.first(now)
    while true do
      local gone = redis.call('ZRANGEBYSCORE', key, '-inf', integer(now - AGO), 'LIMIT', 0, 1000)
      if #gone == 0 then
        return redis.call('ZRANGEBYSCORE', key, 0, '+inf', 'LIMIT', 0, 1)[1] or false
      end
      for i = 1, #gone do
        self.leave(string.sub(gone[i], 2))
      end
    end
  end

  -- stand keeps waiter's place, or gives it the last one. It returns whether that is new.
  function self.stand(waiter, now)
    local new = not redis.call('ZSCORE', key, waiter)
    if new then
      local came = now
      local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
      if last[2] and tonumber(last[2]) >= came then
        came = tonumber(last[2]) + 1
      end
      redis.call('ZADD', key, integer(came), waiter)
    end
    redis.call('ZADD', key, integer(now + LIFE * 1000 - AGO), '!' .. waiter)
    redis.call('PEXPIRE', key, 2 * LIFE)
    return new
  end

  -- wake tells waiter, if there is one, that it may be its turn.
  function self.wake(waiter)
    if waiter then
      redis.call('PUBLISH', string.match(waiter, '^(.*):'), waiter)
    end
  end

  return self
end
