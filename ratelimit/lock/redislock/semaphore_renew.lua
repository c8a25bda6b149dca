-- semaphore_renew: puts off the end of a hold's leases. It brings nothing back that has ended.
--
-- KEYS  1 leases  see semaphore_acquire.lua
-- ARGV  1 hold
--       2 cost    units, as it was acquired with
--       3 lease   ms; 0 only asks
--
-- returns held  1, or 0: nothing is changed
--         left  ms of the lease

-- queue.lua

local SLACK = 1000 -- ms that the key outlives its last lease

local hold, cost, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = microseconds()
local ends = redis.call('ZSCORE', KEYS[1], hold .. ':1')
ends = ends and tonumber(ends)
if not ends or ends <= now then
  return {0, 0}
end
if ends < now + lease * 1000 then
  ends = now + lease * 1000
  local entries = {}
  for i = 1, cost do
    entries[#entries + 1] = integer(ends)
    entries[#entries + 1] = hold .. ':' .. i
  end
  redis.call('ZADD', KEYS[1], 'XX', unpack(entries))
  if redis.call('PTTL', KEYS[1]) < lease + SLACK then
    redis.call('PEXPIRE', KEYS[1], lease + SLACK)
  end
end
return {1, math.floor((ends - now) / 1000)}
