-- semaphore_acquire: takes room in a semaphore.
--
-- KEYS  1 leases  a ZSET with as many members for each hold as it costs, <hold>:1, <hold>:2, …, by when they end: µs of
--                 the server's clock. Those that have ended are not held, whether they are still there or not
--       2 queue   see queue.lua
-- ARGV  1 hold     asking again with the same is no second hold, and renews
--       2 cost     units, 1 to 1,000
--       3 limit    units that may be held at once, as this caller has it
--       4 lease    ms
--       5 waiter   who stands in the queue for it, '' for nobody. It is met where there is room for it and for all who stand before it, of whom who is nobody is behind all
--       6 last     anything where the waiter leaves the queue if it is not met, nothing where it stands there
--       and last a nonce: see lock_acquire.lua
--
-- returns the nonce, and
--         status  0 not held: there is no room, or others wait; 1 held
--         left    ms of the lease, or until the next one of those that are held ends; 0 is unknown
--         first   1 if the waiter is the next to be served

-- queue.lua

local nonce = table.remove(ARGV) + 0
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
  return {nonce, 1, math.floor((ends - now) / 1000), 0}
end

local used = redis.call('ZCOUNT', KEYS[1], '(' .. integer(now), '+inf')
local free = limit - used
local list, dropped = {}, 0
if redis.call('EXISTS', KEYS[2]) == 1 then
  list, dropped = queue.waiting(now, math.max(free, 1))
end
local before, place = 0, nil -- what those want who wait before it, and where it stands itself
for i = 1, #list do
  if list[i] == waiter then
    place = i
    break
  end
  before = before + queue.cost(list[i])
end

local met = before + cost <= free
if met then
  keep(ends)
elseif waiter ~= '' and not ARGV[6] then
  queue.stand(waiter, now)
end
local freed = dropped
if met or waiter ~= '' then
  freed = freed + redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', integer(now))
end
if waiter ~= '' and not met and ARGV[6] and queue.leave(waiter) then
  freed = freed + cost -- for those behind
  if place then
    table.remove(list, place)
  end
end
queue.wake_fitting(list, free, freed, waiter)
if met then
  if place then
    queue.leave(waiter)
  end
  return {nonce, 1, lease, 0}
end
local left = 0
local next = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. integer(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
if next[2] then
  left = math.ceil((tonumber(next[2]) - now) / 1000)
end
return {nonce, 0, left, waiter ~= '' and (list[1] or waiter) == waiter and 1 or 0}
