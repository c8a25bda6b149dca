-- lock_release: ends holds, and the lock with its last one; or leaves the queue. Where nobody waits, the one command
-- HDEL of the same two fields is as good, which tells by the number of fields whether somebody does.
--
-- KEYS  1 lock   see lock_acquire.lua
--       2 queue  see queue.lua
-- ARGV  1 hold    whose fields are removed: nobody else knows its name
--       2 waiter  who leaves the queue, '' for nobody
--       … further pairs of these
--       and last a nonce: see lock_acquire.lua
--
-- returns the nonce, and
--         held  1 if one of the holds was there, else 0

local nonce = table.remove(ARGV) + 0
local held = 0
for i = 1, #ARGV, 2 do
  if redis.call('HDEL', KEYS[1], ARGV[i], '!' .. ARGV[i]) > 0 then -- which ends the hash with its last field
    held = 1
  end
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  return {nonce, held}
end

-- queue.lua

local queue = new_queue(KEYS[2])
for i = 2, #ARGV, 2 do
  if ARGV[i] ~= '' then
    queue.leave(ARGV[i])
  end
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  queue.wake(queue.first(microseconds()))
end
return {nonce, held}
