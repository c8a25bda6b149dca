-- door: bans a key for a while after the limit before it in the decision has denied it often. Both limits
-- have the same cost.
--
--   option  length of the ban, µs
--   rule    count: denials that start a ban; window: µs within which they fall
--
-- The string at its key is one of
--   denied <at> …  when the limit denied, µs of the server's clock, oldest first
--   banned <ends>  when the ban ends, µs of the server's clock
--
-- A banned key is denied whatever the call costs. Denials by the ban itself, of calls without cost, and of
-- costs that can never be allowed do not count. Nothing but the end of the window removes a denial.
--
-- Where the clock was set back, denials of up to a window from now count too, and a ban ends later.

local SLACK_AFTER_DOOR = 1000 -- ms that a key outlives what it says

-- load reads the string. Another program's is refused, as the server refuses a key of another type.
local function load(limit)
  local text = redis.call('GET', limit.key) or ''
  local kind, times = string.match(text, '^(%a+)([ %d]+)$')
  limit.closed, limit.denials = 0, {}
  if kind == 'banned' then
    limit.closed = string.match(times, '%d+') + 0
  elseif kind == 'denied' then
    for at in string.gmatch(times, '%d+') do
      if math.abs(now - at) < limit.window then
        limit.denials[#limit.denials + 1] = at
      end
    end
  elseif text ~= '' then
    redis.call('ZCOUNT', limit.key, 0, 0)
  end
end

local function write(limit, text, time)
  redis.call('SET', limit.key, text, 'PX', integer(math.ceil(time / 1000) + SLACK_AFTER_DOOR))
end

local function probe(limit)
  load(limit)
  if limit.closed > now then
    limit.rules[1].retry = limit.closed - now
    return false
  end
  return true
end

local function settle() end

-- close starts a ban of some µs, and ends one if they are 0.
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
  local denied = false
  for i = 1, #before.rules do
    if before.rules[i].retry < 0 then
      return
    end
    denied = denied or before.rules[i].retry > 0
  end
  if not denied or limit.cost == 0 or limit.closed > now then
    return
  end
  local denials, last = limit.denials, now
  denials[#denials + 1] = integer(now)
  if #denials >= limit.rules[1].count then
    close(limit, limit.option)
    limit.rules[1].retry = limit.option
    return
  end
  for i = 1, #denials do
    last = math.max(last, denials[i])
  end
  write(limit, 'denied ' .. table.concat(denials, ' '), last + limit.window - now)
end

local function others()
  local function describe(limit)
    limit.rules[1].remaining, limit.rules[1].reset = 0, math.max(0, limit.closed - now)
  end

  return {revert = settle, describe = describe}
end

return {probe = probe, settle = settle, refuse = refuse, close = close, make_others = others}
