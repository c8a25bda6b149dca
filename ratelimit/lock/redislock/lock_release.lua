-- lock_release: ends one hold, and the lock with its last one; or leaves the queue.
--
-- KEYS  1 lock     see lock_acquire.lua
--       2 queue
--       3 alive    see queue.lua
-- ARGV  1 hold     whose field is removed: nobody else knows its name
--       2 waiter   who leaves the queue, '' for nobody
--       3 channel  what inboxes begin with
--
-- returns held  1 if the hold was there, else 0

local held = redis.call('HDEL', KEYS[1], ARGV[1]) -- which ends the hash with its last field
if redis.call('EXISTS', KEYS[2]) == 0 then
  return {held}
end

-- queue.lua

local queue = new_queue(KEYS[2], KEYS[3], ARGV[3])
if ARGV[2] ~= '' then
  queue.leave(ARGV[2])
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  queue.wake(queue.first(microseconds()))
end
return {held}
