-- door: denies everything for a while, once the limit before it in the decision has denied often. Both have the same cost.
--
--   option  µs that it is closed then
--   rule    count: denials that close it; window: µs in which they are
--
-- The string at its key is one of
--   denied <at> …  when the limit has denied, in the order of the denials: µs of the server's clock
--   banned <ends> <at> …  until when it is closed, and the denials that have closed it; none where that was asked for
--
-- It has nothing that remains, and is reset once it is open. A take that is given back while what it has charged counts has kept the permits from all who were
-- denied since: those denials are forgotten. The door opens once fewer are left than close it; of those whom the closed door has denied since, the same holds.
--
-- Where the clock was set back, denials of later times count too, and a closed door stays closed for longer. Denials by a closed
-- door, and of what can never be allowed, are not counted.

local SLACK_AFTER_DOOR = 1000 -- ms that a key outlives what it says

-- load reads the string. Another program's is refused, as the server refuses a key of another type.
local function load(limit)
  local text = redis.call('GET', limit.key) or ''
  local kind, times = string.match(text, '^(%a+)([ %d]+)$')
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
  for at in string.gmatch(times, '%d+') do
    if at + 0 > since then
      limit.denials[#limit.denials + 1] = at
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
    at = math.max(at, limit.denials[i] + 0)
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
local function refuse(limit, other)
  local denies = false
  for i = 1, #other.rules do
    if other.rules[i].retry < 0 then
      return
    end
    denies = denies or other.rules[i].retry > 0
  end
  if not denies or limit.cost == 0 or limit.closed > now then
    return
  end
  limit.denials[#limit.denials + 1] = integer(now)
  if #limit.denials >= limit.rules[1].count then
    limit.closed = now + limit.option
    write(limit, 'banned ' .. integer(limit.closed) .. ' ' .. table.concat(limit.denials, ' '), limit.option)
    limit.rules[1].retry = limit.option
  else
    write(limit, 'denied ' .. table.concat(limit.denials, ' '), last(limit) + limit.window - now)
  end
end

local function others()
  local function discharge(limit, _, charged)
    local kept, at = {}, charged + 0
    if limit.cost == 0 or at <= now - limit.window then
      return
    end
    load(limit)
    for i = 1, #limit.denials do
      if limit.denials[i] + 0 < at then
        kept[#kept + 1] = limit.denials[i]
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

  return {revert = settle, discharge = discharge, describe = describe}
end

return {probe = probe, settle = settle, refuse = refuse, close = close, make_others = others}
