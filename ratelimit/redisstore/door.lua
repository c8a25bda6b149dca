-- door: denies everything for a while, once the limit before it in the decision has denied often. Both have the same cost.
--
--   option  µs that it is closed then
--   rule    count: denials that close it; window: µs in which they are
--
-- The string at its key is one of
--   denied <denial> …  those that the limit has denied, in the order of their coming
--   banned <ends> <denial> …  until when it is closed, µs of the server's clock, and the denials that have closed it; none where that was asked for
--
--   denial  <at>/<window>/<window>…: when, µs of the server's clock, and by which of the limit's rules; <at> alone where all have denied
--
-- It has nothing that remains, and is reset once it is open. A take that is given back has kept its permits from those who were denied since: the first of
-- them are forgotten, and of those by a rule no more than the permits that it gains. The door opens once fewer are left than close it.
--
-- Where the clock was set back, denials of later times count too, and a closed door stays closed for longer. Denials by a closed
-- door, and of what can never be allowed, are not counted.

local SLACK_AFTER_DOOR = 1000 -- ms that a key outlives what it says

-- when returns the time of a denial.
local function when(denial)
  return string.match(denial, '%d+') + 0
end

-- load reads the string. Another program's is refused, as the server refuses a key of another type.
local function load(limit)
  local text = redis.call('GET', limit.key) or ''
  local kind, times = string.match(text, '^(%a+)([ %d/]+)$')
  limit.closed, limit.denials = 0, {}
  local since = now - limit.window
  if kind == 'banned' then
    local ends, denials = string.match(times, '(%d+)(.*)')
    limit.closed = ends + 0
    since, times = 0, limit.closed > now and denials or ''
  elseif kind ~= 'denied' then
    if text ~= '' then
      redis.call('ZCOUNT', limit.key, 0, 0)
    end
    return
  end
  for denial in string.gmatch(times, '[%d/]+') do
    if when(denial) > since then
      limit.denials[#limit.denials + 1] = denial
    end
  end
end

local function write(limit, text, time)
  redis.call('SET', limit.key, text, 'PX', integer(math.ceil(time / 1000) + SLACK_AFTER_DOOR))
end

local function probe(limit)
  load(limit)
  local open = limit.closed <= now
  if limit.cost > 0 and not open then
    limit.rules[1].retry = limit.closed - now
  end
  return open or limit.cost == 0
end

local function settle() end

-- last returns when the latest denial was, 0 if there is none.
local function last(limit)
  local at = 0
  for i = 1, #limit.denials do
    at = math.max(at, when(limit.denials[i]))
  end
  return at
end

-- close closes the door for some µs, and opens it where they are 0.
local function close(limit, time)
  limit.closed, limit.denials = now + time, {}
  if time > 0 then
    write(limit, 'banned ' .. integer(limit.closed), time)
  else
    redis.call('PEXPIRE', limit.key, 0)
  end
end

-- refuse counts a denial by the limit before.
local function refuse(limit, before)
  local by, all, none = '', true, true
  for i = 1, #before.rules do
    local rule = before.rules[i]
    if rule.retry < 0 then
      return
    elseif rule.retry > 0 then
      by, none = by .. '/' .. rule.tag, false
    else
      all = false
    end
  end
  if none or limit.cost == 0 or limit.closed > now then
    return
  end
  limit.denials[#limit.denials + 1] = integer(now) .. (all and '' or by)
  if #limit.denials >= limit.rules[1].count then
    limit.closed = now + limit.option
    write(limit, 'banned ' .. integer(limit.closed) .. ' ' .. table.concat(limit.denials, ' '), limit.option)
    limit.rules[1].retry = limit.option
  else
    write(limit, 'denied ' .. table.concat(limit.denials, ' '), last(limit) + limit.window - now)
  end
end

local function others()
  -- excused says whether each of the rules that has denied has gained a permit, and takes these. A rule that there is no more has gained none.
  local function excused(denial, rules)
    local missing, met = select(2, string.gsub(denial, '/', '')), {}
    for i = 1, #rules do
      local rule = rules[i]
      if missing == 0 or string.find(denial .. '/', '/' .. rule.tag .. '/', 1, true) then
        met[#met + 1] = rule
        if rule.gained < 1 then
          return false
        end
      end
    end
    for i = 1, #met >= missing and #met or 0 do
      met[i].gained = met[i].gained - 1
    end
    return #met >= missing
  end

  local function forgive(limit, before, charged)
    local kept = {}
    load(limit)
    for i = 1, #limit.denials do
      local denial = limit.denials[i]
      if charged == 0 or when(denial) < charged or not excused(denial, before.rules) then
        kept[#kept + 1] = denial
      end
    end
    if #kept == #limit.denials then
      return
    end
    limit.denials = kept
    if #kept < limit.rules[1].count then
      limit.closed = 0
    end
    local time = last(limit) + limit.window - now
    if limit.closed > now then
      write(limit, 'banned ' .. integer(limit.closed) .. ' ' .. table.concat(kept, ' '), limit.closed - now)
    elseif time > 0 then
      write(limit, 'denied ' .. table.concat(kept, ' '), time)
    else
      redis.call('PEXPIRE', limit.key, 0)
    end
  end

  local function describe(limit)
    limit.rules[1].remaining, limit.rules[1].reset = 0, math.max(0, limit.closed - now)
  end

  return {revert = settle, forgive = forgive, describe = describe}
end

return {probe = probe, settle = settle, refuse = refuse, close = close, make_others = others}
