-- semaphore_renew: puts off the end of a hold's leases. It brings nothing back that has ended.
--
-- KEYS  1 leases  see semaphore_acquire.lua
-- ARGV  1 hold
--       2 cost    units, as it was acquired with
--       3 lease   ms; 0 only asks
--       and last a nonce: see lock_acquire.lua
--
-- returns the nonce, and
--         held  1, or 0: nothing is changed
--         left  ms of the lease

-- queue.lua

local nonce = table.remove(ARGV) + 0
local SLACK = 1000 -- ms that the key outlives its last lease

local hold, cost, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = microseconds()
local ends = redis.call('ZSCORE', KEYS[1], hold .. ':1')
ends = ends and tonumber(ends)
if not ends or ends <= now then
  return {nonce, 0, 0}
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
return {nonce, 1, math.floor((ends - now) / 1000)}
