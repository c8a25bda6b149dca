-- queue: who waits for a lock or a semaphore, in the order in which they came. It takes the place of "-- queue.lua" in the scripts that use it.
--
-- Two ZSETs hold it. The members of both are waiters, <inbox>:<number>:
--   queue  by when they came: µs of the server's clock, or more, so that nobody comes before those who are there
--   alive  by until when they count unless they ask again: µs of the server's clock
--
-- Whoever stops asking drops out LIFE later, and nobody stands in the queue who is not in alive.

local LIFE = 3000 -- ms

local function integer(n)
  return string.format('%.0f', n)
end

local function microseconds()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function new_queue(queue, alive, channel)
  local self = {}

  local function drop(waiters)
    redis.call('ZREM', queue, unpack(waiters))
    redis.call('ZREM', alive, unpack(waiters))
  end

  -- first returns who is to be served next, false if nobody waits.
  function self.first(now)
    while true do
      local gone = redis.call('ZRANGEBYSCORE', alive, '-inf', integer(now), 'LIMIT', 0, 1000)
      if #gone == 0 then
        break
      end
      drop(gone)
    end
    while true do
      local waiter = redis.call('ZRANGE', queue, 0, 0)[1]
      if not waiter then
        return false
      end
      if redis.call('ZSCORE', alive, waiter) then
        return waiter
      end
      drop({waiter})
    end
  end

  -- stand keeps waiter's place, or gives it the last one.
  function self.stand(waiter, now)
    if not redis.call('ZSCORE', queue, waiter) then
      local came = now
      local last = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
      if last[2] and tonumber(last[2]) >= came then
        came = tonumber(last[2]) + 1
      end
      redis.call('ZADD', queue, integer(came), waiter)
    end
    redis.call('ZADD', alive, integer(now + LIFE * 1000), waiter)
    redis.call('PEXPIRE', queue, 2 * LIFE)
    redis.call('PEXPIRE', alive, 2 * LIFE)
  end

  function self.leave(waiter)
    drop({waiter})
  end

  -- wake tells waiter's inbox that it may be its turn.
  function self.wake(waiter)
    if waiter then
      redis.call('PUBLISH', channel .. string.match(waiter, '^[^:]*'), waiter)
    end
  end

  return self
end
