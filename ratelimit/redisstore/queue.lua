-- queue: leaky-bucket with a wait. Calls go on one after the other, each when those before it have drained.
--
--   letter  q
--   option  to take, how long the call may be delayed: µs; to give back, how long it was told to be
--   ends    when the queue is free, rounded up to µs
--   body    empty, or <early>/<count>: it is free early/count µs before ends. Of another count, early is of no use
--
-- A permit takes window/count to drain, 1 µs or more. All is counted in units of 1 µs/count, as in bucket.lua. A call
-- goes on at ends, as far as that is to come, and is denied if that is later than it may be delayed. The limit has one rule.
--
-- What is given back is free again where no later call has been told to go on behind it; else the gap stays.

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

local function delay(entry, now)
  return entry and entry.ends - now or 0
end

local function ask(entry, rule, cost, now, most)
  if cost > rule.count then
    return -1
  end
  local wait = delay(entry, now)
  if wait > most then
    return wait - most
  end
  return 0, wait
end

local function charge(entry, rule, cost, now)
  local ahead = cost * rule.window
  if entry then
    ahead = ahead + (entry.ends - now) * rule.count - early(entry, rule)
  end
  local wait = math.ceil(ahead / rule.count)
  return made(now + wait, wait * rule.count - ahead, rule)
end

local function back(entry, rule, cost, at, now, delayed)
  local units = cost * rule.window + early(entry, rule)
  local whole = math.floor(units / rule.count)
  if entry.ends - whole ~= at + delayed then
    return entry
  end
  if entry.ends - whole <= now then
    return nil
  end
  return made(entry.ends - whole, units - whole * rule.count, rule)
end

local function describe(entry, rule, now, most)
  local wait = delay(entry, now)
  return wait <= most and rule.count or 0, wait
end

return entries('q', {ask = ask, charge = charge, back = back, describe = describe, delays = true})
