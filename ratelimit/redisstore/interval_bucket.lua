-- interval-bucket: a token bucket of burst tokens at most, which gains count of them at once whenever a window has passed
-- since it was last full.
--
--   letter  i
--   option  the depth, 0 for each rule's count
--   ends    when the bucket is full again
--   body    <gains>, or what fraction.lua says, in tokens and steps of a window, and /<gains>: the first call that found the
--           bucket full was so many windows before ends, below 0 where the clock was set back behind it
--
-- What is missing follows from the gains between now and ends, so that a time is only ever moved by whole windows and
-- nothing is lost between two gains. A clock that is set back is further away from ends.

local function capacity(rule, burst)
  if burst > 0 then
    return burst
  end
  return rule.count
end

local function gains(rule)
  return rule.ends and string.match(rule.body, '%-?%d+$') + 0 or 0
end

-- moved returns the entry with more tokens missing, or fewer below 0.
local function moved(rule, tokens)
  local more, body = move(rule, tokens)
  if body ~= '' then
    body = body .. '/'
  end
  return (rule.ends or now) + more * rule.window, body .. integer(gains(rule) + more)
end

local function ask(rule, cost, burst)
  local left = capacity(rule, burst) - cost
  if left < 0 then
    return -1
  end
  if not rule.ends then
    return 0
  end
  return math.max(0, rule.ends - now - math.floor((left + early(rule)) / rule.count) * rule.window)
end

-- fuller returns the entry with fewer tokens missing, nil if none are.
local function fuller(rule, tokens)
  local ends, body = moved(rule, -tokens)
  if ends <= now then
    return nil
  end
  return ends, body
end

-- back takes back what has not come back by itself since: all of it where the bucket has been full in between.
local function back(rule, cost, _, at)
  local start = rule.ends - gains(rule) * rule.window
  if at < start then
    return rule.ends, rule.body
  end
  local gained = math.floor((now - start) / rule.window) - math.floor((at - start) / rule.window)
  return fuller(rule, math.max(0, cost - math.max(0, gained) * rule.count))
end

local function grant(rule, cost, burst)
  return fuller(rule, math.min(cost, capacity(rule, burst)))
end

local function describe(rule, burst)
  local most = capacity(rule, burst)
  if not rule.ends then
    return most, 0
  end
  local wait = rule.ends - now
  return math.max(0, most + early(rule) - math.ceil(wait / rule.window) * rule.count), wait
end

return entries('i', {ask = ask, charge = moved, back = back, grant = grant, describe = describe})
