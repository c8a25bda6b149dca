-- fixed-window: windows follow one another, and each admits count.
--
--   letter  f
--   option  0: windows begin at the multiples of their length since 1970-01-01 00:00 UTC
--           1: a window begins with the first call that is admitted after the end of the one before
--   ends    when the window ends
--   body    units admitted in it
--
-- Where the clock was set back behind the window's beginning, the window goes on until it ends.

local function used(rule)
  if not rule.ends then
    return 0
  end
  if not string.find(rule.body, '^%d+$') then
    error({err = 'WRONGTYPE the units of a fixed window are "' .. rule.body .. '", want digits'})
  end
  return rule.body + 0
end

local function ask(rule, cost)
  if cost > rule.count then
    return -1
  end
  if used(rule) + cost <= rule.count then
    return 0
  end
  return rule.ends - now
end

local function charge(rule, cost, option)
  local ends = rule.ends
  if not ends then
    ends = now + rule.window
    if option == 0 then
      ends = ends - now % rule.window
    end
  end
  return ends, integer(used(rule) + cost)
end

-- without returns the window with fewer units, nil if none are left.
local function without(rule, cost)
  local left = used(rule) - cost
  if left <= 0 then
    return nil
  end
  return rule.ends, integer(left)
end

-- back leaves a window alone that the cost was not charged in.
local function back(rule, cost, _, at)
  if at < rule.ends - rule.window or at >= rule.ends then
    return rule.ends, rule.body
  end
  return without(rule, cost)
end

local function describe(rule)
  if not rule.ends then
    return rule.count, 0
  end
  return math.max(0, rule.count - used(rule)), rule.ends - now
end

return entries('f', {ask = ask, charge = charge, back = back, grant = without, describe = describe})
