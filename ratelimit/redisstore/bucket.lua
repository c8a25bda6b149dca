-- bucket: token-bucket, leaky-bucket and gcra, which are one: burst tokens at most, count more in each window, evenly.
--
--   letter  b
--   option  the depth, 0 for each rule's count
--   ends    when the bucket is full again, rounded up to µs
--   body    empty, or what fraction.lua says, in steps of 1 µs, and behind it
--             @<age>+<charged>  where calls may be given back, behind <units> of 0, too: how long before ends the rule began to
--                               count what is charged, µs, and permits charged since
--             ~<time>           where permits were taken ahead, the latest time as of which they were, µs
--   note    of place 8, how many permits were charged before
--
-- At place 8 are the limits whose calls may be given back. At place 1 nothing is paid for that: of what is charged is counted only what is charged behind
-- calls of such a limit, which another version of a service has on the key.
--
-- One token takes window/count to come back. All is counted in units of 1 µs/count, of which a token is as many as
-- the window has µs: integers below 2^53, which lose nothing. A clock that is set back is further away from ends.
--
-- What is taken ahead is missing as if nothing had come back by then. A charge made before has room behind it then which is
-- not there, so that of what it gives back only that much is free again which would be if it had been charged as late.
--
-- What comes back comes back in the order in which it was charged, as a queue drains. Of a charge that is given back, what is still missing is
-- therefore known by how many permits have been charged behind it: what is missing in all, less those. What of them was given back
-- itself counts as if it stood before the charge: too little is given back then, never too much. It is
-- not less, either, than if all had gone to the charge that has come back since, which is what a limit of place 1 gives back. The last
-- charge, if all of it is given back, is as if it had never been made. What is charged is counted anew where the rule had nothing missing, or
-- has another count, and where rules of a limit have not begun together.

local returns = place == '8'

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

-- latest returns the time that stands behind a rule's body, 0 if none does.
local function latest(rule)
  local time = rule.ends and rule.body ~= '' and string.match(rule.body, '~(%d+)$') or 0
  return time + 0
end

-- line returns when a rule began to count what is charged, and how much has been since; nil if that is of no use.
local function line(rule)
  local count, age, charged = string.match(rule.body, '^%d+/(%d+)@(%d+)%+(%d+)')
  if count and count + 0 == rule.count then
    return rule.ends - age, charged + 0
  end
end

-- moved returns the ends and body with more units missing, or fewer below 0, of a rule that began at start to count, and has charged permits since.
local function moved(rule, units, start, charged, time)
  local more, body = move(rule, units)
  local ends = (rule.ends or now) + more
  if start and start <= ends then
    body = (body == '' and '0/' .. integer(rule.count) or body) .. '@' .. integer(ends - start) .. '+' .. integer(charged)
  end
  if time > 0 then
    body = body .. '~' .. integer(time)
  end
  return ends, body
end

-- counted says whether a rule counts what is charged, or is to.
local function counted(limit)
  for i = 1, #limit.rules do
    local body = limit.rules[i].body
    if body and body ~= '' and string.find(body, '@', 1, true) then
      return true
    end
  end
  return returns
end

-- begin finds when the rules began to count, and the most that any of them has been charged since. They begin now if some did so at another time than others.
-- They have no start where nothing is counted.
local function begin(limit)
  local began, most
  if not counted(limit) then
    for i = 1, #limit.rules do
      limit.rules[i].start = nil
    end
    return
  end
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    if rule.ends then
      local start, charged = line(rule)
      if not start or began and began ~= start then
        began, most = now, 0
        break
      end
      began, most = start, math.max(most or 0, charged)
    end
  end
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    rule.start, rule.note = began or now, most or 0
  end
end

local function charge(rule, cost, _, ahead)
  local time = latest(rule)
  if ahead > 0 then
    time = math.max(time, now + ahead)
    if not rule.ends or rule.ends <= now + ahead then
      rule.ends, rule.body = now + ahead, ''
    end
  end
  return moved(rule, cost * rule.window, rule.start, (rule.note or 0) + cost, time)
end

-- fuller returns the entry with fewer units missing, nil if none are.
local function fuller(rule, units, start, charged, time)
  local ends, body = moved(rule, -units, start, charged, time)
  if ends <= now then
    return nil
  end
  return ends, body
end

local MOST = 9007199254740992 -- 2^53

-- back takes back what has not come back by itself since.
local function back(rule, cost, _, at, ahead, before)
  local time = latest(rule)
  local from, all = math.max(now, time), cost * rule.window
  local units = all - math.max(0, from - at - ahead) * rule.count
  local start, charged = line(rule)
  if returns and start and start <= at and before + cost <= charged then
    local missing = math.min(MOST, math.max(0, rule.ends - from) * rule.count) - early(rule)
    missing = missing - (charged - before - cost) * rule.window
    if missing >= all and before + cost == charged then
      charged = before
    end
    units = math.max(units, math.min(all, missing))
  end
  if units <= 0 then
    return rule.ends, rule.body
  end
  return fuller(rule, units, start, charged, time)
end

local function grant(rule, cost, burst)
  local start, charged = line(rule)
  return fuller(rule, math.min(cost, capacity(rule, burst)) * rule.window, start, charged, latest(rule))
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

return entries('b', {ask = ask, begin = begin, charge = charge, back = back, grant = grant, describe = describe, notes = returns})
