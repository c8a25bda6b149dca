-- bucket: token-bucket, leaky-bucket and gcra, which are one: burst tokens at most, count more in each window, evenly.
--
--   letter  b
--   option  the depth, 0 for each rule's count
--   ends    when the bucket is full again, rounded up to µs
--   body    empty, or what fraction.lua says, in steps of 1 µs
--
-- One token takes window/count to come back. All is counted in units of 1 µs/count, of which a token is as many as
-- the window has µs: integers below 2^53, which lose nothing. A clock that is set back is further away from ends.

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

local function charge(rule, cost)
  local more, body = move(rule, cost * rule.window)
  return (rule.ends or now) + more, body
end

-- back takes back what has not come back by itself since.
local function back(rule, cost, _, at)
  local units = cost * rule.window - math.max(0, now - at) * rule.count
  if units <= 0 then
    return rule.ends, rule.body
  end
  local more, body = move(rule, -units)
  if rule.ends + more <= now then
    return nil
  end
  return rule.ends + more, body
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

return entries('b', {ask = ask, charge = charge, back = back, describe = describe})
