-- semaphore_release: ends holds, or leaves the queue.
--
-- KEYS  1 leases   see semaphore_acquire.lua
--       2 queue    see queue.lua
-- ARGV  1 hold
--       2 cost     units, as it was acquired with
--       3 waiter   who leaves the queue, '' for nobody
--       … further triples of these
--
-- returns held  1 if one of the holds had not ended, else 0

-- queue.lua

local now = microseconds()
local queue = redis.call('EXISTS', KEYS[2]) == 1 and new_queue(KEYS[2])
local held = 0
for i = 1, #ARGV, 3 do
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
    redis.call('ZREM', KEYS[1], unpack(members))
  end
  if queue and waiter ~= '' then
    queue.leave(waiter)
  end
end
if queue then
  queue.wake(queue.first(now))
end
return held
