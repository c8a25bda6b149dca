-- fleet: who shares the counts, by the server's clock.
--
-- KEYS     a ZSET of members, each with the time at which it last attended, in µs
-- ARGV     member  the one that attends
--          while   µs for which a member counts
--          nonce   a number of up to 53 bits
-- returns  integers: the nonce, and the members that count, this one included
--
-- Members of a later time are of a clock that was set back, or of another server's: they count once they attend again.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function score(t)
  return string.format('%.0f', t)
end
redis.call('ZADD', KEYS[1], score(now), ARGV[1])
redis.call('PEXPIRE', KEYS[1], score(ARGV[2] / 1000))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', score(now - ARGV[2]))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. score(now), '+inf')
return {ARGV[3] + 0, redis.call('ZCOUNT', KEYS[1], '-inf', '+inf')}
