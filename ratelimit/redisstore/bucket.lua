-- bucket: token-bucket, leaky-bucket and gcra, which are one: burst tokens at most, count more in each window, evenly.
--
--   letter  b
--   option  the depth, 0 for each rule's count
--   ends    when the bucket is full again, rounded up to µs
--   body    empty, or what fraction.lua says, in steps of 1 µs, and behind it ~<time> where permits were taken ahead: the latest
--           time as of which they were, µs
--
-- One token takes window/count to come back. All is counted in units of 1 µs/count, of which a token is as many as
-- the window has µs: integers below 2^53, which lose nothing. A clock that is set back is further away from ends.
--
-- What is taken ahead is missing as if nothing had come back by then. A charge made before has room behind it then which is
-- not there, so that of what it gives back only that much is free again which would be if it had been charged as late.

local function capacity(rule, burst)
  if burst > 0 then
    return burst
  end
  return rule.count
end

local function ask(rule, cost, burst)
  local left = capacity(rule, burst) - cost
  if left < 0 then
    return -1
  end
  if not rule.ends then
    return 0
  end
  return math.max(0, rule.ends - now - math.floor((left * rule.window + early(rule)) / rule.count))
end

-- latest returns the time that stands behind a rule's body, 0 if none does.
local function latest(rule)
  local time = rule.ends and rule.body ~= '' and string.match(rule.body, '~(%d+)$') or 0
  return time + 0
end

-- moved returns move's steps and body, with such a time behind it.
local function moved(rule, units, time)
  local more, body = move(rule, units)
  if time > 0 then
    body = body .. '~' .. integer(time)
  end
  return more, body
end

local function charge(rule, cost, _, ahead)
  local time = latest(rule)
  if ahead > 0 then
    time = math.max(time, now + ahead)
    if not rule.ends or rule.ends <= now + ahead then
      rule.ends, rule.body = now + ahead, ''
    end
  end
  local more, body = moved(rule, cost * rule.window, time)
  return (rule.ends or now) + more, body
end

-- fuller returns the entry with fewer units missing, nil if none are.
local function fuller(rule, units, time)
  local more, body = moved(rule, -units, time)
  if rule.ends + more <= now then
    return nil
  end
  return rule.ends + more, body
end

-- back takes back what has not come back by itself since.
local function back(rule, cost, _, at, ahead)
  local time = latest(rule)
  local units = cost * rule.window - math.max(0, math.max(now, time) - at - ahead) * rule.count
  if units <= 0 then
    return rule.ends, rule.body
  end
  return fuller(rule, units, time)
end

local function grant(rule, cost, burst)
  return fuller(rule, math.min(cost, capacity(rule, burst)) * rule.window, latest(rule))
end

local function describe(rule, burst)
  local most = capacity(rule, burst)
  if not rule.ends then
    return most, 0
  end
  local wait = rule.ends - now
  if wait > most * rule.window / rule.count + 1 then
    return 0, wait
  end
  local units = most * rule.window - wait * rule.count + early(rule)
  return math.max(0, math.floor(units / rule.window)), wait
end

return entries('b', {ask = ask, charge = charge, back = back, grant = grant, describe = describe})
