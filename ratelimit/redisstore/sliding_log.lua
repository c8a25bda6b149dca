-- sliding-log: every unit of cost admitted is one member of the sorted set at the limit's key.
--
--   score   when the unit was admitted, µs of the server's clock; of units taken ahead, so much later, of others that are told of later, so much earlier
--   member  unit 0 of an admission is its base (14 digits), unit i its number followed by the base: integers all,
--           which Redis stores in few bytes
--   option  to give back, the number of the first unit that is; the cost is that of the one behind the last
--
-- A rule (count, window) sees the units with score > now - window, those later than now too: where the clock was
-- set back, no capacity comes of it, and what is taken ahead has its room from now on. It denies a cost if the unit at rank count - cost + 1 from the newest is one
-- of them: that unit must leave the window first.

local CHUNK = 1000 -- members of one ZADD or ZREM: unpack has a limit
local SLACK = 1000 -- ms that a key outlives its newest unit's last window

local stamp -- the score of now, once it is needed

-- newest returns the score of the unit at a rank, 1 for the newest, nil if there are fewer.
local function newest(key, rank)
  local place = integer(-rank)
  local unit = redis.call('ZRANGE', key, place, place, 'WITHSCORES')
  if unit[1] and not string.find(unit[1], '^%d+$') then
    error({err = 'WRONGTYPE a member of a sliding log is no number'})
  end
  return tonumber(unit[2])
end

-- probe finds out, too, whether the set is full: it has as many units as the largest count needs once the cost is charged.
local function probe(limit)
  local cost, allowed, full = limit.cost, true, true
  if cost == 0 then
    return true
  end
  local units = redis.call('ZCARD', limit.key)
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    local rank = rule.count - cost + 1
    if rank < 1 then
      rule.retry, allowed = -1, false
    elseif rank > units then
      full = false
    else
      local leaves = newest(limit.key, rank) + rule.window
      if leaves > now then
        rule.retry, allowed = leaves - now, false
      end
    end
  end
  limit.full = full
  return allowed
end

-- remove removes the units from, from + 1, … of the admission with this base.
local function remove(limit, base, from)
  for first = from, limit.cost - 1, CHUNK do
    local members = {}
    for unit = first, math.min(first + CHUNK, limit.cost) - 1 do
      members[#members + 1] = unit == 0 and base or integer(unit) .. base
    end
    redis.call('ZREM', limit.key, unpack(members))
  end
end

-- charge adds the cost's units. An admission of the same base holds units 0, 1, … up to its cost, so those that were added
-- beside it are the last ones.
local function charge(limit, base)
  local cost, score = limit.cost, stamp
  if limit.ahead ~= 0 then
    score = integer(now + limit.ahead)
  elseif not score then
    score = integer(now)
    stamp = score
  end
  local added = redis.call('ZADD', limit.key, 'NX', score, base)
  for first = 1, cost - 1, CHUNK do
    local scored = {}
    for unit = first, math.min(first + CHUNK, cost) - 1 do
      scored[#scored + 1] = score
      scored[#scored + 1] = integer(unit) .. base
    end
    added = added + redis.call('ZADD', limit.key, 'NX', unpack(scored))
  end
  if added < cost then
    remove(limit, base, cost - added)
    return false
  end
  return true
end

-- settle drops what no rule sees any more, where there is enough of it, and puts off the key's expiry if it is near. It never
-- brings it forward: a call of shorter windows, or of a clock that was set back, leaves what longer ones still need.
local function settle(limit)
  if limit.full then
    redis.call('ZREMRANGEBYSCORE', limit.key, '-inf', integer(now - limit.window))
  end
  local ms = math.ceil((limit.window + limit.ahead) / 1000)
  if redis.call('PTTL', limit.key) <= ms then
    redis.call('PEXPIRE', limit.key, integer(ms + SLACK))
  end
end

-- others makes what few calls need.
local function others()
  local function discharge(limit, base)
    remove(limit, base, limit.option)
  end

  local function grant(limit)
    for left = limit.cost, 1, -CHUNK do
      local units = redis.call('ZRANGE', limit.key, integer(-math.min(left, CHUNK)), '-1')
      if #units > 0 then
        redis.call('ZREM', limit.key, unpack(units))
      end
    end
  end

  local function describe(limit)
    local last = newest(limit.key, 1)
    for _, rule in ipairs(limit.rules) do
      rule.remaining, rule.reset = rule.count, 0
      if last and last > now - rule.window then
        local used = redis.call('ZCOUNT', limit.key, '(' .. integer(now - rule.window), '+inf')
        rule.remaining = math.max(0, rule.count - used)
        rule.reset = last + rule.window - now
      end
    end
  end

  return {revert = discharge, discharge = discharge, grant = grant, describe = describe}
end

return {probe = probe, charge = charge, settle = settle, make_others = others}
