-- peek: who holds a lock or a semaphore, and how many wait. It changes nothing.
--
-- KEYS  1 held   the lock, or the leases, as lock_acquire.lua and semaphore_acquire.lua say
--       2 queue  see queue.lua
--       3 token  of a lock; none for a semaphore
-- ARGV  1 most   leases that are answered
--
-- returns waiting, units held, token ('' of a semaphore, or where it is not known), and for each unit of a semaphore, or hold of a
--         lock, its name and the µs that it still runs, in the order in which they end

local AGO = 4000000000000000 -- µs, as in queue.lua

local function integer(n)
  return string.format('%.0f', n)
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local waiting = redis.call('ZCOUNT', KEYS[2], '(' .. integer(now - AGO), '(0')
local reply = {waiting, 0, ''}
if KEYS[3] then
  reply[3] = redis.call('GET', KEYS[3]) or ''
  local left = integer(math.max(0, redis.call('PTTL', KEYS[1])) * 1000)
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 1) ~= '!' then
      reply[2] = reply[2] + 1
      if reply[2] <= ARGV[1] + 0 then
        reply[#reply + 1] = field
        reply[#reply + 1] = left
      end
    end
  end
  return reply
end
local live = '(' .. integer(now)
reply[2] = redis.call('ZCOUNT', KEYS[1], live, '+inf')
local units = redis.call('ZRANGEBYSCORE', KEYS[1], live, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
for i = 1, #units, 2 do
  reply[#reply + 1] = units[i]
  reply[#reply + 1] = integer(units[i + 1] - now)
end
return reply
