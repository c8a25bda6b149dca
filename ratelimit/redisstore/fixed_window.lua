-- fixed-window: windows follow one another, and each admits count.
--
--   letter  f
--   option  0: windows begin at the multiples of their length since 1970-01-01 00:00 UTC
--           1: a window begins with the first call that is admitted after the end of the one before
--   ends    when the window ends
--   body    units admitted in it
--
-- Where the clock was set back behind the window's beginning, the window goes on until it ends.

local function used(entry)
  return entry and tonumber(entry.body) or 0
end

local function ask(entry, rule, cost, now)
  if cost > rule.count then
    return -1
  end
  if used(entry) + cost <= rule.count then
    return 0
  end
  return entry.ends - now
end

local function charge(entry, rule, cost, now, option)
  local ends = now + rule.window
  if entry then
    ends = entry.ends
  elseif option == 0 then
    ends = ends - now % rule.window
  end
  return {ends = ends, body = integer(used(entry) + cost)}
end

-- back leaves a window alone that the cost was not charged in.
local function back(entry, rule, cost, at)
  if at < entry.ends - rule.window or at >= entry.ends then
    return entry
  end
  local left = used(entry) - cost
  if left <= 0 then
    return nil
  end
  return {ends = entry.ends, body = integer(left)}
end

local function describe(entry, rule, now)
  if not entry then
    return rule.count, 0
  end
  return math.max(0, rule.count - used(entry)), entry.ends - now
end

return entries('f', {ask = ask, charge = charge, back = back, describe = describe})
