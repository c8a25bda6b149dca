-- sliding-window: what is admitted is counted by sub-windows, which begin at the multiples of their length since
-- 1970-01-01 00:00 UTC. A sub-window counts whole until the end of it is a window ago.
--
--   letter  w, and the entry is of this option only
--   option  segments: sub-windows in a window. Where they are not whole µs they are rounded up
--   ends    when the newest sub-window that holds anything has left the window
--   body    <units>,<units>,…  of the newest sub-window, of the one before it, and so on; 0 is written as nothing
--
-- A sub-window leaves segments + 1 lengths after it has begun, and one length before the next newer one. Where the clock
-- was set back, or something was taken ahead, the sub-windows of later times count too, and what is admitted behind the
-- oldest one counts as of it.

local function length_of(rule, segments)
  return math.ceil(rule.window / segments)
end

-- leaves returns when the sub-window that holds a time has left the window.
local function leaves(time, length, segments)
  return time - time % length + (segments + 1) * length
end

-- read returns the units that count of a rule's entry by how many sub-windows they are older than the one that leaves at ends, from
-- 0 to segments, and more where something was taken ahead.
local function read(rule, ends, length, segments)
  local units = {}
  for age = 0, segments do
    units[age] = 0
  end
  if rule.ends then
    local age = (ends - rule.ends) / length
    for number in string.gmatch(rule.body .. ',', '(%d*),') do
      if ends - age * length > now then
        for gap = #units + 1, age do
          units[gap] = 0
        end
        units[age] = tonumber(number) or 0
      end
      age = age + 1
    end
  end
  return units
end

-- made returns the ends and body of an entry of such a table, nil if it is empty.
local function made(units, ends, length)
  local first, last
  for age = 0, #units do
    if units[age] > 0 then
      first, last = first or age, age
    end
  end
  if not first then
    return nil
  end
  local parts = {}
  for age = first, last do
    parts[#parts + 1] = units[age] > 0 and integer(units[age]) or ''
  end
  return ends - first * length, table.concat(parts, ',')
end

local function ask(rule, cost, segments)
  local room = rule.count - cost
  if room < 0 then
    return -1
  end
  if not rule.ends then
    return 0
  end
  local length, ends = length_of(rule, segments), rule.ends
  for number in string.gmatch(rule.body .. ',', '(%d*),') do
    room = room - (tonumber(number) or 0)
    if ends <= now then
      return 0
    end
    if room < 0 then
      return ends - now
    end
    ends = ends - length
  end
  return 0
end

local function charge(rule, cost, segments, ahead)
  local length = length_of(rule, segments)
  local mine = leaves(now + ahead, length, segments)
  if rule.ends == mine then -- most calls meet others in their sub-window
    local newest, older = string.match(rule.body, '^(%d+)([%d,]*)$')
    if newest then
      return mine, integer(newest + cost) .. older
    end
  end
  local ends = math.max(rule.ends or mine, mine)
  local units = read(rule, ends, length, segments)
  local age = math.min((ends - mine) / length, segments)
  units[age] = units[age] + cost
  return made(units, ends, length)
end

local function back(rule, cost, segments, at, ahead)
  local length = length_of(rule, segments)
  local mine = leaves(at + ahead, length, segments)
  local age = (rule.ends - mine) / length
  local units = read(rule, rule.ends, length, segments)
  if mine <= now or not units[age] then
    return rule.ends, rule.body
  end
  units[age] = math.max(0, units[age] - cost)
  return made(units, rule.ends, length)
end

local function grant(rule, cost, segments)
  local length = length_of(rule, segments)
  local units = read(rule, rule.ends, length, segments)
  for age = 0, #units do
    local taken = math.min(cost, units[age])
    units[age], cost = units[age] - taken, cost - taken
  end
  return made(units, rule.ends, length)
end

local function describe(rule, segments)
  if not rule.ends then
    return rule.count, 0
  end
  local length, ends, room = length_of(rule, segments), rule.ends, rule.count
  for number in string.gmatch(rule.body .. ',', '(%d*),') do
    if ends > now then
      room = room - (tonumber(number) or 0)
    end
    ends = ends - length
  end
  return math.max(0, room), rule.ends - now
end

return entries('w', {ask = ask, charge = charge, back = back, grant = grant, describe = describe, apart = true})
