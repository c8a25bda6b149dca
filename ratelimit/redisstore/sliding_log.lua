-- sliding-log: every unit of cost admitted is one member of the sorted set at the limit's key.
--
--   score   when the unit was admitted, µs of the server's clock
--   member  unit 0 of an admission is its base (14 digits), unit i its number followed by the base: integers all,
--           which Redis stores in few bytes
--
-- A rule (count, window) sees the units with score > now - window, those later than now too: where the clock was
-- set back, no capacity comes of it. It denies a cost if the unit at rank count - cost + 1 from the newest is one
-- of them: that unit must leave the window first.
--
-- The functions take a limit: {key, cost, rules}, a rule being {count, window}, windows in µs. probe writes nothing;
-- charge, settle and discharge write in this order.

local CHUNK = 1000 -- members of one ZADD or ZREM: unpack has a limit
local SLACK = 1000 -- ms that a key outlives its newest unit's last window

local function newest(key, rank)
  return tonumber(redis.call('ZRANGE', key, -rank, -rank, 'WITHSCORES')[2])
end

-- probe sets the retry (µs; 0 allowed, -1 never) of every rule, and full: the set has more units than the largest
-- count needs once the cost is charged. It returns whether every rule allows the cost.
local function probe(limit, now)
  local allowed, absent = true, math.huge
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    local rank = rule.count - limit.cost + 1
    rule.retry = 0
    if limit.cost > 0 and rank < 1 then
      rule.retry = -1
    elseif limit.cost > 0 and rank < absent then
      local score = newest(limit.key, rank)
      if not score then
        absent = rank -- the set is smaller: no older unit need be asked for
      elseif score > now - rule.window then
        rule.retry = score + rule.window - now
      end
    end
    if rule.retry ~= 0 then
      allowed = false
    end
  end
  limit.full = absent == math.huge
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

-- charge adds the cost's units and returns true; where another admission has the same base it changes nothing and
-- returns false. That admission holds units 0, 1, … up to its cost, so those that were added are the last ones.
local function charge(limit, base, now)
  local score, cost = integer(now), limit.cost
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
local function settle(limit, now)
  local window = 0
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    window = math.max(window, rule.window)
  end
  if limit.full then
    redis.call('ZREMRANGEBYSCORE', limit.key, '-inf', integer(now - window))
  end
  local ms = math.ceil(window / 1000)
  if redis.call('PTTL', limit.key) <= ms then
    redis.call('PEXPIRE', limit.key, integer(ms + SLACK))
  end
end

-- others makes what few calls need.
local function others()
  local function discharge(limit, base)
    remove(limit, base, 0)
  end

  -- describe sets remaining and reset (µs) of every rule, as the key now stands.
  local function describe(limit, now)
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

  return {revert = discharge, discharge = discharge, describe = describe}
end

return {probe = probe, charge = charge, settle = settle, make_others = others}
