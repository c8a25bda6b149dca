-- lock_acquire: takes a lock, or takes it once more for the owner that has it.
--
-- KEYS  1 lock   a hash with a field for each hold that the one owner has, <owner>:<number>, whose value is the fencing
--                token: the number of these is the hold count. While somebody waits, each has a field !<hold> beside it, which
--                tells whoever ends the hold. It is there while the lock is held, and ends with its lease
--       2 token  the last fencing token, a string
--       3 queue  see queue.lua
-- ARGV  1 hold    the field: asking again with the same is no second hold, and renews
--       2 lease   ms
--       3 waiter  who stands in the queue for it; '' or nothing for nobody
--       4 outer   a hold that this one nests in, nothing for none: then nobody waits, and it is met only if that is held
--
-- returns token, an integer: the lock was free, and is held for the whole lease; or
--         status  0 not held: others have it, or wait; 1 held; 2 the outer hold is gone
--         token   of what is held, else 0
--         left    ms of the lease, or of that of those who have it; 0 is unknown
--         first   1 if the waiter is the next to be served
--
-- A lease never ends sooner for a hold that is added: its end is the latest that any of them asked for.
--
-- Tokens count on from the server's time in µs when the key was made, which expires TOKEN_LIFE after that. The next ones
-- count on from a later time, which is more: nobody takes a lock a million times a second. So they grow even where
-- the key was lost, unless the clock was set back, too.

local function take()
  local token = redis.call('INCR', KEYS[2])
  if token < 1000000000000000 then -- µs: any server's time is later
    local TOKEN_LIFE = 86400000 -- ms
    local time = redis.call('TIME')
    token = time[1] * 1000000 + time[2]
    redis.call('SET', KEYS[2], string.format('%.0f', token), 'PX', TOKEN_LIFE)
  end
  redis.call('HSET', KEYS[1], ARGV[1], token) -- written with all of its 16 digits
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return token
end

if not ARGV[4] and redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  return take()
end

-- queue.lua

local hold, lease, waiter, outer = ARGV[1], tonumber(ARGV[2]), ARGV[3] or '', ARGV[4]
local queue = new_queue(KEYS[3])

local function extend()
  local left = redis.call('PTTL', KEYS[1])
  if left < lease then
    redis.call('PEXPIRE', KEYS[1], lease)
    left = lease
  end
  return left
end

-- tell makes whoever ends a hold learn that somebody waits.
local function tell()
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 1) ~= '!' then
      redis.call('HSET', KEYS[1], '!' .. field, '')
    end
  end
end

local token = redis.call('HGET', KEYS[1], hold)
if token then
  if waiter ~= '' then
    queue.leave(waiter)
  end
  return {1, tonumber(token), extend(), 0}
end
if outer then
  token = redis.call('HGET', KEYS[1], outer)
  if not token then
    return {2, 0, 0, 0}
  end
  redis.call('HSET', KEYS[1], hold, token)
  if redis.call('EXISTS', KEYS[3]) == 1 then
    tell()
  end
  return {1, tonumber(token), extend(), 0}
end

local now = microseconds()
local first = queue.first(now)
local left = redis.call('PTTL', KEYS[1])
local free = left == -2
if free and (not first or first == waiter) then
  token = take()
  if first then
    queue.leave(waiter)
    if redis.call('EXISTS', KEYS[3]) == 1 then
      tell()
    end
  end
  return token
end
if waiter ~= '' then
  if queue.stand(waiter, now) and not free then
    tell()
  end
  first = first or waiter
end
if free then
  queue.wake(first)
end
return {0, 0, math.max(left, 0), first == waiter and 1 or 0}
