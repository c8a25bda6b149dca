-- lock_release: ends one hold, and the lock with its last one; or leaves the queue. Where nobody waits, the one command
-- HDEL of the same two fields is as good, which tells by the number of fields whether somebody does.
--
-- KEYS  1 lock   see lock_acquire.lua
--       2 queue  see queue.lua
-- ARGV  1 hold    whose fields are removed: nobody else knows its name
--       2 waiter  who leaves the queue, nothing for nobody
--
-- returns held  1 if the hold was there, else 0

local held = redis.call('HDEL', KEYS[1], ARGV[1], '!' .. ARGV[1]) > 0 and 1 or 0 -- which ends the hash with its last field
if redis.call('EXISTS', KEYS[2]) == 0 then
  return held
end

-- queue.lua

local queue = new_queue(KEYS[2])
if ARGV[2] then
  queue.leave(ARGV[2])
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  queue.wake(queue.first(microseconds()))
end
return held
