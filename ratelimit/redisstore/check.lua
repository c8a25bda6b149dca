-- What the server lets its user do, before the first decision. It reads and writes no key.
--
-- KEYS     none
-- ARGV     keys of the limiter, one of each prefix
-- returns  strings: the server's TIME in seconds, and its microseconds, both '0' where TIME is not permitted;
--          what INFO says of the memory, '' where that is not permitted; then, for each command that decisions need
--          and the user lacks, its name; where it is a matter of the key, its name, a space and the key.
--
-- A server before Redis 7 does not say what is permitted: it is taken to permit all but INFO.

local function may(...)
  if not redis.acl_check_cmd then
    return true
  end
  local known, permitted = pcall(redis.acl_check_cmd, ...)
  return not known or permitted
end

local reply = {'0', '0', ''}

local function need(name, ...)
  if not may(...) then
    reply[#reply + 1] = name
    return false
  end
  return true
end

if need('time', 'TIME') then
  local time = redis.call('TIME')
  reply[1], reply[2] = time[1], time[2]
end
if redis.acl_check_cmd and may('INFO', 'memory') then
  local memory = redis.pcall('INFO', 'memory')
  if type(memory) == 'string' then
    reply[3] = memory
  end
end
for _, key in ipairs(ARGV) do
  local function data(name, ...)
    need(name .. ' ' .. key, name, key, ...)
  end
  need('eval ' .. key, 'EVAL', 'return 0', '1', key)
  need('evalsha ' .. key, 'EVALSHA', '0', '1', key)
  data('zadd', 'NX', '1', 'a')
  data('zcard')
  data('zrange', '0', '1')
  data('zcount', '0', '1')
  data('zrem', 'a')
  data('zremrangebyscore', '0', '1')
  data('pexpire', '1')
  data('pttl')
  data('get')
  data('set', 'a')
  data('append', 'a')
  data('getrange', '0', '1')
  data('setrange', '0', 'a')
end
return reply
