-- lock_acquire: takes a lock, or takes it once more for the owner that has it.
--
-- KEYS  1 lock   a hash with a field for each hold that the one owner has, <owner>:<number>, with no value: the number
--                of these is the hold count. While somebody waits, each has a field !<hold> beside it, which tells whoever ends
--                the hold. It is there while the lock is held, and ends with its lease
--       2 token  the last fencing token, a string: that of who holds the lock
--       3 queue  see queue.lua
-- ARGV  1 hold    the field: asking again with the same is no second hold, and renews
--       2 lease   ms; LEASE if there is none
--       3 waiter  who stands in the queue for it; '' or nothing for nobody
--       4 outer   a hold that this one nests in, '' or nothing for none: then nobody waits, and it is met only if that is held
--       5 last    anything where the waiter leaves the queue if it is not met, nothing where it stands there
--       and last a nonce, a number of up to 53 bits: the reply of every script begins with it
--
-- returns the nonce, and
--         token, an integer: the lock was free, and is held for the whole lease; or
--         status  0 not held: others have it, or wait; 1 held; 2 the outer hold is gone
--         token   of what is held, else 0
--         left    ms of the lease, or of that of those who have it; 0 is unknown
--         first   1 if the waiter is the next to be served
--
-- A lease never ends sooner for a hold that is added: its end is the latest that any of them asked for.
--
-- Tokens count on from the server's time in µs when the key was made. The key lives TOKEN_SLACK longer than the lease, so
-- that names which are used once leave nothing for long. The next tokens count on from a later time, which is more: nobody
-- takes a lock a million times a second. So they grow even if the key was lost, unless the clock was set back, too.

local nonce = table.remove(ARGV) + 0
local queue, first, tell
local call = redis.call
local TOKEN_SLACK = 300000 -- ms
local LEASE = '30000' -- ms: that of most, who need not send it

if ARGV[4] or call('EXISTS', KEYS[1], KEYS[3]) > 0 then

-- queue.lua

  local hold, lease, waiter, outer = ARGV[1], tonumber(ARGV[2] or LEASE), ARGV[3] or '', ARGV[4] or ''
  queue = new_queue(KEYS[3])

  -- same is the token of who holds the lock.
  local function same()
    local token = tonumber(redis.call('GET', KEYS[2]) or 0)
    if token == 0 then
      token = microseconds()
      redis.call('SET', KEYS[2], integer(token), 'PX', lease + TOKEN_SLACK)
    end
    return token
  end

  local function extend()
    local left = redis.call('PTTL', KEYS[1])
    if left < lease then
      redis.call('PEXPIRE', KEYS[1], lease)
      redis.call('PEXPIRE', KEYS[2], lease + TOKEN_SLACK)
      left = lease
    end
    return left
  end

  -- tell makes whoever ends a hold learn that somebody waits.
  function tell()
    if redis.call('EXISTS', KEYS[3]) == 1 then
      for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
        if string.sub(field, 1, 1) ~= '!' then
          redis.call('HSET', KEYS[1], '!' .. field, '')
        end
      end
    end
  end

  if redis.call('HEXISTS', KEYS[1], hold) == 1 then
    if waiter ~= '' then
      queue.leave(waiter)
    end
    return {nonce, 1, same(), extend(), 0}
  end
  if outer ~= '' then
    if redis.call('HEXISTS', KEYS[1], outer) == 0 then
      return {nonce, 2, 0, 0, 0}
    end
    redis.call('HSET', KEYS[1], hold, '')
    tell()
    return {nonce, 1, same(), extend(), 0}
  end

  local now = microseconds()
  first = queue.first(now)
  local left = redis.call('PTTL', KEYS[1])
  local free = left == -2
  if not free or first and first ~= waiter then
    if ARGV[5] then
      queue.leave(waiter)
    elseif waiter ~= '' then
      if queue.stand(waiter, now) then
        tell()
      end
      first = first or waiter
    end
    if free then
      queue.wake(first)
    end
    return {nonce, 0, 0, math.max(left, 0), first == waiter and 1 or 0}
  end
end

local token, life = call('INCR', KEYS[2]), (ARGV[2] or LEASE) + TOKEN_SLACK
if token < 1000000000000000 then -- µs: any server's time is later
  local time = call('TIME')
  token = time[1] * 1000000 + time[2]
  call('SET', KEYS[2], string.format('%.0f', token), 'PX', life)
else
  call('PEXPIRE', KEYS[2], life)
end
call('HSET', KEYS[1], ARGV[1], '')
call('PEXPIRE', KEYS[1], ARGV[2] or LEASE)
if first then
  queue.leave(first)
  tell()
end
return {nonce, token}
