-- bucket: token-bucket, leaky-bucket and gcra, which are one: burst tokens at most, count more in each window, evenly.
--
--   letter  b
--   option  the depth, 0 for each rule's count
--   ends    when the bucket is full again, rounded up to µs
--   body    empty, or <early>/<count>: it is full early/count µs before ends. Of another count, early is of no use
--
-- One token takes window/count to come back. All is counted in units of 1 µs/count, of which a token is as many as
-- the window has µs: integers below 2^53, which lose nothing. A clock that is set back is further away from ends.

local function capacity(rule, burst)
  if burst > 0 then
    return burst
  end
  return rule.count
end

local function early(entry, rule)
  local units, count = string.match(entry.body, '^(%d+)/(%d+)$')
  if units and tonumber(count) == rule.count then
    return tonumber(units)
  end
  return 0
end

local function made(ends, units, rule)
  local body = ''
  if units > 0 then
    body = integer(units) .. '/' .. integer(rule.count)
  end
  return {ends = ends, body = body}
end

local function ask(entry, rule, cost, now, burst)
  local left = capacity(rule, burst) - cost
  if left < 0 then
    return -1
  end
  if not entry then
    return 0
  end
  return math.max(0, entry.ends - now - math.floor((left * rule.window + early(entry, rule)) / rule.count))
end

local function charge(entry, rule, cost, now)
  local missing = cost * rule.window
  if entry then
    missing = missing + (entry.ends - now) * rule.count - early(entry, rule)
  end
  local wait = math.ceil(missing / rule.count)
  return made(now + wait, wait * rule.count - missing, rule)
end

-- back takes back what has not come back by itself since.
local function back(entry, rule, cost, at, now)
  local since = math.max(0, now - at)
  local units = cost * rule.window - since * rule.count
  if units <= 0 then
    return entry
  end
  units = units + early(entry, rule)
  local whole = math.floor(units / rule.count)
  if entry.ends - whole <= now then
    return nil
  end
  return made(entry.ends - whole, units - whole * rule.count, rule)
end

local function describe(entry, rule, now, burst)
  local most = capacity(rule, burst)
  if not entry then
    return most, 0
  end
  local wait = entry.ends - now
  if wait > most * rule.window / rule.count + 1 then
    return 0, wait
  end
  local units = most * rule.window - wait * rule.count + early(entry, rule)
  return math.max(0, math.floor(units / rule.window)), wait
end

return entries('b', {ask = ask, charge = charge, back = back, describe = describe})
