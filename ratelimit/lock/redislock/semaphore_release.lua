-- semaphore_release: ends a hold, or leaves the queue.
--
-- KEYS  1 leases   see semaphore_acquire.lua
--       2 queue    see queue.lua
-- ARGV  1 hold
--       2 cost     units, as it was acquired with
--       3 waiter   who leaves the queue, '' for nobody
--
-- returns held  1 if the hold had not ended, else 0

-- queue.lua

local hold, cost = ARGV[1], tonumber(ARGV[2])
local now = microseconds()
local ends = redis.call('ZSCORE', KEYS[1], hold .. ':1')
local held = ends and tonumber(ends) > now
if ends then
  local members = {}
  for i = 1, cost do
    members[i] = hold .. ':' .. i
  end
  redis.call('ZREM', KEYS[1], unpack(members))
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  local queue = new_queue(KEYS[2])
  if ARGV[3] ~= '' then
    queue.leave(ARGV[3])
  end
  queue.wake(queue.first(now))
end
return held and 1 or 0
