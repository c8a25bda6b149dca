-- ledger: what one instance of a service has counted, for the others, by the server's clock.
--
-- KEYS[1]  the instances: a ZSET of descriptions, each with the time at which it was last given, in ms
-- KEYS[2]  the bans: a ZSET of limits and ids, each with the time at which its ban ends, in ms
-- KEYS[3…] what the entries write: a hash for each second, a ZSET for each minute, a string, a list
-- ARGV     while   how long, in ms, an instance counts that is not heard of
--          entries of four: the index of a key, what to do, a name, a number
--            here   KEYS[1]: the description of this instance, or one that is no longer its
--            gone
--            ban    KEYS[2]: an id that is banned for so many ms from now
--            lift   KEYS[2]: an id that is not banned any more
--            count  a hash: so many more of a name
--            rank   a ZSET: so many more of a name, of which the 200 largest are kept
--            keep   any: how long the key stays, in ms
--            note   a list: a text at its head, of which so many stay
--            salt   a string: what it is where it is not there
--          a nonce, a number of up to 53 bits
-- returns  the nonce, and the time: seconds, µs

local nonce = table.remove(ARGV) + 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function ms(t)
  return string.format('%.0f', t)
end

for i = 2, #ARGV, 4 do
  local key, what, name, n = KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  if what == 'count' then
    redis.call('HINCRBY', key, name, n)
  elseif what == 'rank' then
    redis.call('ZINCRBY', key, n, name)
    redis.call('ZREMRANGEBYRANK', key, 0, -201)
  elseif what == 'keep' then
    redis.call('PEXPIRE', key, n)
  elseif what == 'salt' then
    redis.call('SET', key, name, 'NX')
  elseif what == 'note' then
    redis.call('LPUSH', key, name)
    redis.call('LTRIM', key, 0, n - 1)
  elseif what == 'here' then
    redis.call('ZADD', key, ms(now), name)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', ms(now - ARGV[1]))
    redis.call('PEXPIRE', key, ARGV[1])
  elseif what == 'gone' or what == 'lift' then
    redis.call('ZREM', key, name)
  elseif what == 'ban' then
    redis.call('ZADD', key, ms(now + n), name)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', ms(now))
    redis.call('ZREMRANGEBYRANK', key, 0, -201)
    local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')
    if last[2] then
      redis.call('PEXPIRE', key, ms(last[2] - now))
    end
  end
end
return {nonce, tonumber(time[1]), tonumber(time[2])}
