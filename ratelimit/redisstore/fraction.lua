-- fraction: of the entries whose ends are rounded up. What a rule's entry counts is over units before it ends, of which
-- one step has count: the body says so, as <units>/<count>. Of another count, the units are of no use.

local function early(rule)
  if not rule.ends or rule.body == '' then
    return 0
  end
  local units, count = string.match(rule.body, '^(%d+)/(%d+)')
  if units and count + 0 == rule.count then
    return units + 0
  end
  return 0
end

-- move returns how many steps later a rule's entry ends with more units, or fewer below 0, and then its <units>/<count>:
-- '' if that is none.
local function move(rule, units)
  units = units - early(rule)
  local steps = math.ceil(units / rule.count)
  local rest = steps * rule.count - units
  return steps, rest > 0 and integer(rest) .. '/' .. integer(rule.count) or ''
end
