-- queue: leaky-bucket with a wait. Calls go on one after the other, each when those before it have drained.
--
--   letter  q
--   option  how long the call may be delayed: µs
--   note    how long it is: µs
--   ends    when the queue is free, rounded up to µs
--   body    empty, or what fraction.lua says, in steps of 1 µs
--
-- A permit takes window/count to drain, 1 µs or more. All is counted in units of 1 µs/count, as in bucket.lua. A call
-- goes on at ends, as far as that is to come, and is denied if that is later than it may be delayed. The limit has one rule.
--
-- What is given back is free again where no later call has been told to go on behind it; else the gap stays.

local function delay(rule)
  return rule.ends and rule.ends - now or 0
end

local function ask(rule, cost, most)
  if cost > rule.count then
    return -1
  end
  local wait = delay(rule)
  if wait > most then
    return wait - most
  end
  return 0, wait
end

local function charge(rule, cost)
  local more, body = move(rule, cost * rule.window)
  return (rule.ends or now) + more, body
end

local function back(rule, cost, _, at, _, delayed)
  local more, body = move(rule, -cost * rule.window)
  if rule.ends + more ~= at + delayed then
    return rule.ends, rule.body
  end
  if rule.ends + more <= now then
    return nil
  end
  return rule.ends + more, body
end

local function describe(rule, most)
  local wait = delay(rule)
  return wait <= most and rule.count or 0, wait
end

return entries('q', {ask = ask, charge = charge, back = back, describe = describe, notes = true})
