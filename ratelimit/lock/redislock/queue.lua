-- queue: who waits for a lock or a semaphore, in the order in which they came. It takes the place of "-- queue.lua" in the scripts that use it.
--
-- One ZSET holds it. A waiter is named <channel>:<number>, after the channel on which it hears, one for a semaphore <channel>:<number>/<cost>, after what it waits for, too. It
-- has two members in it, which come and go together:
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

  -- leave returns whether waiter stood there.
  function self.leave(waiter)
    return redis.call('ZREM', key, waiter, '!' .. waiter) > 0
  end

  -- waiting returns the first few who wait, in order, and what those cost who have dropped out.
  function self.waiting(now, most)
    local dropped = 0
    while true do
      local gone = redis.call('ZRANGEBYSCORE', key, '-inf', integer(now - AGO), 'LIMIT', 0, 1000)
      if #gone == 0 then
        return redis.call('ZRANGEBYSCORE', key, 0, '+inf', 'LIMIT', 0, most), dropped
      end
      for i = 1, #gone do
        self.leave(string.sub(gone[i], 2))
        dropped = dropped + self.cost(gone[i])
      end
    end
  end

  -- first returns who is to be served next, false if nobody waits.
  function self.first(now)
    return self.waiting(now, 1)[1] or false
  end

  -- cost is what waiter waits for: units of a semaphore.
  function self.cost(waiter)
    return tonumber(string.match(waiter, '/(%d+)$') or 1)
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

  -- wake_fitting wakes those of list, the first who wait, for whom there is room in free units, and was none before freed of these had become free. It
  -- leaves out one, who knows, and wakes the first of the others in any case: a waking may be lost.
  function self.wake_fitting(list, free, freed, one)
    local sum, again = 0, true
    for i = 1, #list do
      sum = sum + self.cost(list[i])
      if sum > free then
        return
      end
      if list[i] ~= one then
        if again or sum > free - freed then
          self.wake(list[i])
        end
        again = false
      end
    end
  end

  return self
end
