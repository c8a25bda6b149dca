-- semaphore_release: ends holds, or leaves the queue.
--
-- KEYS  1 leases   see semaphore_acquire.lua
--       2 queue    see queue.lua
-- ARGV  1 limit    units that may be held at once, as the caller has it
--       2 hold
--       3 cost     units, as it was acquired with
--       4 waiter   who leaves the queue, '' for nobody
--       … further triples of hold, cost and waiter
--       and last a nonce: see lock_acquire.lua
--
-- returns the nonce, and
--         held  1 if one of the holds had not ended, else 0

-- queue.lua

local nonce = table.remove(ARGV) + 0
local now = microseconds()
local queue = redis.call('EXISTS', KEYS[2]) == 1 and new_queue(KEYS[2])
local held, freed = 0, 0
for i = 2, #ARGV, 3 do
  local hold, cost, waiter = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local ends = redis.call('ZSCORE', KEYS[1], hold .. ':1')
  if ends then
    if tonumber(ends) > now then
      held = 1
    end
    local members = {}
    for unit = 1, cost do
      members[unit] = hold .. ':' .. unit
    end
    freed = freed + redis.call('ZREM', KEYS[1], unpack(members))
  end
  if queue and waiter ~= '' and queue.leave(waiter) then
    freed = freed + cost -- for those behind
  end
end
if queue then
  freed = freed + redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', integer(now))
  local free = tonumber(ARGV[1]) - redis.call('ZCOUNT', KEYS[1], '-inf', '+inf')
  local list, dropped = queue.waiting(now, math.max(free, 1))
  if list[1] and queue.cost(list[1]) > free then
    queue.wake(list[1]) -- whose limit may be another
  end
  queue.wake_fitting(list, free, freed + dropped)
end
return {nonce, held}
