-- compact-log: the sliding log in one string at the limit's key. Every unit of cost admitted is one record of it.
--
--   record   when the unit was admitted, and the last 32 bits of the base of its admission: integers of 6 and 4 bytes,
--            the first byte the highest
--   string   <mark><expires> and the records in the order of their times, oldest first, those of one admission
--            together; it is read and written whole. Where that were PAGE bytes or more, the first PAGE of them are
--            <mark><expires><floor><older><room>, the newest records and zeros, and the older ones stand behind, with
--            room for more of them; it is read and written in parts.
--
--   mark     4 bytes that no text begins with: the first is 1 where the string is whole, 2 where it is in parts
--   expires  6 bytes: when the key expires, as far as this script has seen to it
--   floor    6 bytes: the units up to then are dropped, though their records stay until there is no room
--   older    records behind the first PAGE bytes, 6 bytes
--   room     records for which there is room behind them, 6 bytes
--
-- Times are µs of the server's clock, without what is above 48 bits: of those that they may be, the one nearest to now, which
-- is less than five years away.
--
-- It decides as sliding-log does: a rule (count, window) sees the units with a time > now - window, those later than
-- now too, and denies a cost if the unit at rank count - cost + 1 from the newest is one of them. A unit of rank n is
-- one record at a place that follows from n, so that the length of the log is no matter for a decision. It is only
-- where a clock was set back, where an admission is given back that is not among the newest, and where there is no room
-- left, once in an eighth of the log's length.
--
-- Two admissions of one base are both counted; what gives one of them back takes the newer.

local PAGE = 1028               -- bytes of a string from which on it is read in parts: a head and 100 records
local SLACK_AFTER_WINDOW = 1000 -- ms that a key outlives its newest unit's last window
local LONGEST = 31622400000000  -- µs, of all windows
local RECORD = 10
local SHORT_HEAD, LONG_HEAD = 10, 28

-- pack returns the last 48 bits of an integer.
local function pack(n)
  local low = n % 16777216
  local high = (n - low) / 16777216 % 16777216
  local c, f = high % 256, low % 256
  high, low = (high - c) / 256, (low - f) / 256
  local b, e = high % 256, low % 256
  return string.char((high - b) / 256, b, c, (low - e) / 256, e, f)
end

-- unpack48 returns the integer nearest to another that has these last 48 bits.
local function unpack48(text, from, near)
  local a, b, c, d, e, f = string.byte(text, from, from + 5)
  local ahead = ((a * 256 + b) * 256 + c) * 16777216 + (d * 256 + e) * 256 + f - near
  return near + (ahead + 140737488355328) % 281474976710656 - 140737488355328
end

-- A log is what is known of the string: {key, now, text, start, floor, older, units}. text is its first PAGE bytes, in which
-- the newest records begin at byte start; there are older ones behind them, and units of both.

-- load reads the string. Another program's is refused, as the server refuses a key of another type.
local function load(key, now)
  local text = redis.call('GETRANGE', key, '0', '1027')
  local size, mark = #text, string.byte(text)
  local newer = (size - SHORT_HEAD) / RECORD
  if size == 0 then
    return {key = key, now = now, text = text, start = SHORT_HEAD + 1, floor = 0, older = 0, units = 0}
  end
  if string.sub(text, 2, 4) == 'log' then
    if mark == 1 and size < PAGE and newer > 0 and newer % 1 == 0 then
      return {key = key, now = now, text = text, start = SHORT_HEAD + 1, floor = 0, older = 0, units = newer}
    end
    if mark == 2 and size == PAGE then
      local ends = string.find(text, '\0\0\0\0\0\0\0\0\0\0', LONG_HEAD + 1, true) or PAGE + 1
      local floor, older = unpack48(text, 11, now), unpack48(text, 17, 0)
      newer = math.ceil((ends - LONG_HEAD - 1) / RECORD)
      return {key = key, now = now, text = text, start = LONG_HEAD + 1, floor = floor, older = older, units = older + newer}
    end
  end
  redis.call('ZCOUNT', key, 0, 0)
end

-- at returns the time of a record, numbered from 0 for the oldest.
local function at(log, i)
  if i >= log.older then
    return unpack48(log.text, log.start + (i - log.older) * RECORD, log.now)
  end
  local from = PAGE + i * RECORD
  return unpack48(redis.call('GETRANGE', log.key, integer(from), integer(from + 5)), 1, log.now)
end

-- probe sets the retry (µs; 0 allowed, -1 never) of every rule, and full: the log has more units than the largest
-- count needs once the cost is charged. It returns whether every rule allows the cost.
local function probe(limit, now)
  local log, cost, allowed = load(limit.key, now), limit.cost, true
  limit.log, limit.full = log, true
  if cost == 0 then
    return true
  end
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    local rank = rule.count - cost + 1
    local time = rank >= 1 and rank <= log.units and at(log, log.units - rank) or 0
    if rank < 1 then
      rule.retry, allowed = -1, false
    elseif time <= log.floor then
      limit.full = false
    elseif time > now - rule.window then
      rule.retry, allowed = time + rule.window - now, false
    end
  end
  return allowed
end

-- others makes what few calls need.
local function others()
  local KEPT = 50   -- newest records that stay within the first PAGE bytes when older ones leave them
  local CHUNK = 128 -- records that are read at once where one of several is looked for

  -- records returns the records from and below to.
  local function records(log, from, to)
    if from >= to then
      return ''
    end
    local older, behind = log.older, ''
    if from < older then
      local last = math.min(to, older)
      behind = redis.call('GETRANGE', log.key, integer(PAGE + from * RECORD), integer(PAGE + last * RECORD - 1))
      from = last
    end
    return behind .. string.sub(log.text, log.start + (from - older) * RECORD, log.start - 1 + (to - older) * RECORD)
  end

  -- later returns the first record of low and below high that is later than a time, high if none is. They are read at
  -- once where they are few.
  local function later(log, time, low, high)
    local text, from
    while low < high do
      if not text and high - low <= CHUNK then
        text, from = records(log, low, high), low
      end
      local middle = math.floor((low + high) / 2)
      local found = text and unpack48(text, (middle - from) * RECORD + 1, log.now) or at(log, middle)
      if found > time then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- rest returns the records from and below to that are not dropped.
  local function rest(log, from, to)
    if log.floor > 0 then
      from = later(log, log.floor, from, to)
    end
    return records(log, from, to)
  end

  local function long_head(expires, floor, older, room)
    return '\2log' .. pack(expires) .. pack(floor) .. pack(older) .. pack(room)
  end

  -- write makes records all there are of the log.
  local function write(log, all, expires, ...)
    local units = #all / RECORD
    if units == 0 then
      redis.call('PEXPIRE', log.key, 0)
    elseif SHORT_HEAD + #all < PAGE then
      redis.call('SET', log.key, '\1log' .. pack(expires) .. all, ...)
    else
      local older, room = units - KEPT, KEPT + math.floor(units / 8)
      local page = long_head(expires, unpack48(all, 1, log.now) - 1, older, room) .. string.sub(all, older * RECORD + 1)
      redis.call('SET', log.key, page .. string.rep('\0', PAGE - #page) .. string.sub(all, 1, older * RECORD) ..
        string.rep('\0', room * RECORD), ...)
    end
  end

  -- turn moves records from the first PAGE bytes to those behind, and returns whether there was room for them.
  local function turn(log, added, expires)
    local older, room = log.older, unpack48(log.text, 23, 0)
    local newer = records(log, older, log.units) .. added
    local moved = #newer / RECORD - KEPT
    if moved > room then
      return false
    end
    redis.call('SETRANGE', log.key, integer(PAGE + older * RECORD), string.sub(newer, 1, moved * RECORD))
    redis.call('SETRANGE', log.key, '0', long_head(expires, log.floor, older + moved, room - moved) ..
      string.sub(newer, moved * RECORD + 1) .. string.rep('\0', (100 - KEPT) * RECORD))
    return true
  end

  -- insert adds records of now. The key expires at expires: in ms, if that is new.
  local function insert(log, added, expires, ms)
    local units, now = log.units, log.now
    local place = units
    if units > 0 and at(log, units - 1) > now then
      place = later(log, now, 0, units)
    elseif log.older > 0 and now > log.floor and not log.stale and turn(log, added, expires) then
      if ms then
        redis.call('PEXPIRE', log.key, ms)
      end
      return
    end
    local all = rest(log, 0, place) .. added .. rest(log, place, units)
    if ms then
      write(log, all, expires, 'PX', ms)
    else
      write(log, all, expires, 'KEEPTTL')
    end
  end

  -- cut takes records away.
  local function cut(log, from, to)
    if log.older > 0 and from >= log.older then
      redis.call('SETRANGE', log.key, integer(log.start - 1 + (from - log.older) * RECORD),
        records(log, to, log.units) .. string.rep('\0', (to - from) * RECORD))
    else
      write(log, rest(log, 0, from) .. rest(log, to, log.units), unpack48(log.text, 5, log.now), 'KEEPTTL')
    end
  end

  -- last returns the last of some records that has the bytes of a base, numbered from 0, or nil.
  local function last(text, base)
    local record
    local found = string.find(text, base, 1, true)
    while found do
      if (found - 1) % RECORD == 6 then
        record = (found - 1 - 6) / RECORD
      end
      found = string.find(text, base, found + 1, true)
    end
    return record
  end

  -- seek returns the first record of the newest admission of a base and a cost, or nil.
  local function seek(log, base, cost)
    local to = log.units
    while to > 0 do
      local from = to > log.older and log.older or math.max(0, to - CHUNK)
      local found = last(records(log, from, to), base)
      if found then
        local first = from + found + 1 - cost
        return first >= 0 and string.sub(records(log, first, first + 1), 6 + 1) == base and first or nil
      end
      to = from
    end
  end

  local function discharge(limit, base, _, now)
    local log = load(limit.key, now)
    if limit.cost > 0 then
      local from = seek(log, string.sub(pack(base + 0), 3), limit.cost)
      if from then
        cut(log, from, from + limit.cost)
      end
    end
    limit.log, limit.written = log, true
  end

  local function revert(limit, base)
    if limit.written then
      discharge(limit, base, 0, limit.log.now)
    end
  end

  -- describe sets remaining and reset (µs) of every rule, as the key now stands.
  local function describe(limit, now)
    local log = limit.written and load(limit.key, now) or limit.log
    local last = log.units > 0 and at(log, log.units - 1) or 0
    for _, rule in ipairs(limit.rules) do
      local edge = math.max(now - rule.window, log.floor)
      rule.remaining, rule.reset = rule.count, 0
      if last > edge then
        local low = math.max(0, log.units - rule.count)
        rule.remaining = rule.count - (log.units - later(log, edge, low, log.units))
        rule.reset = last + rule.window - now
      end
    end
  end

  return {insert = insert, revert = revert, discharge = discharge, describe = describe}
end

local function charge(limit, base)
  limit.log.base = base
  return true
end

-- settle adds the cost's units, drops what no rule sees any more where there is enough of it, and puts off the key's
-- expiry if it is near. It never brings it forward.
local function settle(limit, now)
  local log, window = limit.log, 0
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    window = math.max(window, rule.window)
  end
  local text, units, floor, ms = log.text, log.units, log.floor, math.ceil(window / 1000)
  local expires, near = units > 0 and unpack48(text, 5, now) or 0, nil
  if math.floor((expires - now) / 1000) <= ms then
    expires, near = now + (ms + SLACK_AFTER_WINDOW) * 1000, integer(ms + SLACK_AFTER_WINDOW)
  end
  if limit.full then
    floor = math.max(floor, now - window)
  end
  local stale = floor < now - 2 * LONGEST -- 48 bits tell times of nine years apart
  if stale then
    floor = now - LONGEST
  end
  limit.written = true
  local added = string.rep(pack(now) .. string.sub(pack(log.base + 0), 3), limit.cost)
  local place = log.start - 1 + (units - log.older) * RECORD
  if now <= floor or stale and log.older > 0 or place + #added > PAGE or units > 0 and at(log, units - 1) > now then
    log.floor, log.stale = floor, stale
    others().insert(log, added, expires, near)
  elseif log.older > 0 then
    redis.call('SETRANGE', log.key, integer(place), added)
    if near or floor ~= log.floor then
      redis.call('SETRANGE', log.key, '4', pack(expires) .. pack(floor))
    end
    if near then
      redis.call('PEXPIRE', log.key, near)
    end
  else
    local from = log.start
    while from <= place and unpack48(text, from, now) <= floor do
      from = from + RECORD
    end
    if near then
      redis.call('SET', log.key, '\1log' .. pack(expires) .. string.sub(text, from) .. added, 'PX', near)
    elseif from > log.start then
      redis.call('SET', log.key, string.sub(text, 1, SHORT_HEAD) .. string.sub(text, from) .. added, 'KEEPTTL')
    else
      redis.call('SET', log.key, text .. added, 'KEEPTTL')
    end
  end
end

return {probe = probe, charge = charge, settle = settle, make_others = others}
