-- lock_renew: puts off the end of a lock's lease, for whoever has it.
--
-- KEYS  1 lock   see lock_acquire.lua
--       2 token  the same
-- ARGV  1 hold   of the owner's
--       2 lease  ms; 0 only asks
--       and last a nonce: see lock_acquire.lua
--
-- returns the nonce, and
--         held  1, or 0: nothing is changed
--         left  ms of the lease

local nonce = table.remove(ARGV) + 0
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return {nonce, 0, 0}
end
local left, lease = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
if left < lease then
  redis.call('PEXPIRE', KEYS[1], lease)
  redis.call('PEXPIRE', KEYS[2], lease + 300000) -- TOKEN_SLACK
  left = lease
end
return {nonce, 1, left}
