-- interval-bucket: a token bucket of burst tokens at most, which gains count of them at once whenever a window has passed
-- since it was last full.
--
--   letter  i
--   option  the depth, 0 for each rule's count
--   ends    when the bucket is full again
--   body    <early>/<count>/<steps>: early tokens, below count, were there before the last of the gains that end then,
--           and were those of another count, early is of no use; the first call that found the bucket full was steps
--           windows before ends, below 0 where the clock was set back behind it
--
-- What is missing follows from the gains between now and ends, so that a time is only ever moved by whole windows and
-- nothing is lost between two gains. A clock that is set back is further away from ends.

local function capacity(rule, burst)
  if burst > 0 then
    return burst
  end
  return rule.count
end

local function read(entry, rule)
  local early, count, steps = string.match(entry.body, '^(%d+)/(%d+)/(%-?%d+)$')
  if tonumber(count) ~= rule.count then
    early = 0
  end
  return tonumber(early), tonumber(steps)
end

-- missing returns how many tokens are, and after how many gains none will be.
local function missing(entry, rule, now)
  local gains = math.ceil((entry.ends - now) / rule.window)
  return gains * rule.count - read(entry, rule), gains
end

-- made returns an entry with some tokens missing in place of those after gains.
local function made(entry, rule, tokens, gains)
  local _, steps = read(entry, rule)
  local more = math.ceil(tokens / rule.count) - gains
  local early = (more + gains) * rule.count - tokens
  return {
    ends = entry.ends + more * rule.window,
    body = integer(early) .. '/' .. integer(rule.count) .. '/' .. integer(steps + more),
  }
end

local function ask(entry, rule, cost, now, burst)
  local left = capacity(rule, burst) - cost
  if left < 0 then
    return -1
  end
  if not entry then
    return 0
  end
  return math.max(0, entry.ends - now - math.floor((left + read(entry, rule)) / rule.count) * rule.window)
end

local function charge(entry, rule, cost, now)
  if not entry then
    return made({ends = now, body = '0/0/0'}, rule, cost, 0)
  end
  local tokens, gains = missing(entry, rule, now)
  return made(entry, rule, tokens + cost, gains)
end

-- back takes back what has not come back by itself since: all of it where the bucket has been full in between.
local function back(entry, rule, cost, at, now)
  local _, steps = read(entry, rule)
  local start = entry.ends - steps * rule.window
  if at < start then
    return entry
  end
  local gained = math.floor((now - start) / rule.window) - math.floor((at - start) / rule.window)
  local tokens, gains = missing(entry, rule, now)
  local left = tokens - math.max(0, cost - math.max(0, gained) * rule.count)
  if left <= 0 then
    return nil
  end
  return made(entry, rule, left, gains)
end

local function describe(entry, rule, now, burst)
  local most = capacity(rule, burst)
  if not entry then
    return most, 0
  end
  return math.max(0, most - (missing(entry, rule, now))), entry.ends - now
end

return entries('i', {ask = ask, charge = charge, back = back, describe = describe})
