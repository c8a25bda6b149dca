-- semaphore_acquire: takes room in a semaphore.
--
-- KEYS  1 leases  a ZSET with as many members for each hold as it costs, <hold>:1, <hold>:2, …, by when they end: µs of
--                 the server's clock. Those that have ended are not held, whether they are still there or not
--       2 queue   see queue.lua
-- ARGV  1 hold     asking again with the same is no second hold, and renews
--       2 cost     units, 1 to 1,000
--       3 limit    units that may be held at once, as this caller has it
--       4 lease    ms
--       5 waiter   who stands in the queue for it, '' for nobody
--
-- returns status  0 not held: there is no room, or others wait; 1 held
--         left    ms of the lease, or until the next one of those that are held ends; 0 is unknown
--         first   1 if the waiter is the next to be served

-- queue.lua

local SLACK = 1000 -- ms that the key outlives its last lease

local hold, cost, limit, lease, waiter = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local now = microseconds()
local ends = now + lease * 1000

-- keep makes the hold's leases end at ends, or later where they did.
local function keep(ends)
  local entries = {}
  for i = 1, cost do
    entries[#entries + 1] = integer(ends)
    entries[#entries + 1] = hold .. ':' .. i
  end
  redis.call('ZADD', KEYS[1], unpack(entries))
  if redis.call('PTTL', KEYS[1]) < lease + SLACK then
    redis.call('PEXPIRE', KEYS[1], lease + SLACK)
  end
end

local queue = new_queue(KEYS[2])
local mine = redis.call('ZSCORE', KEYS[1], hold .. ':1')
mine = mine and tonumber(mine)
if mine and mine > now then
  ends = math.max(ends, mine)
  keep(ends)
  if waiter ~= '' then
    queue.leave(waiter)
  end
  return {1, math.floor((ends - now) / 1000), 0}
end

local first = redis.call('EXISTS', KEYS[2]) == 1 and queue.first(now)
local used = redis.call('ZCOUNT', KEYS[1], '(' .. integer(now), '+inf')
if used + cost <= limit and (not first or first == waiter) then
  keep(ends)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', integer(now))
  if first then
    queue.leave(waiter)
    if used + cost < limit then
      queue.wake(queue.first(now))
    end
  end
  return {1, lease, 0}
end
if waiter ~= '' then
  queue.stand(waiter, now)
  first = first or waiter
end
if used < limit and first ~= waiter then
  queue.wake(first)
end
local left = 0
local next = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. integer(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if next[2] then
  left = math.ceil((tonumber(next[2]) - now) / 1000)
end
return {0, left, first == waiter and 1 or 0}
