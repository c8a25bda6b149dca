-- compact-log: the sliding log in one string at the limit's key. Every unit of cost admitted is one record of it.
--
--   record   when the unit was admitted, or as much later as it was taken ahead: an integer of 6 bytes, the highest first
--   string   <mark><expires> and the records in the order of their times, oldest first; it is read whole.
--            Where that were PAGE bytes or more, the first PAGE of them are <mark><expires><floor><older><room>, the
--            newest records and zeros, at least a record of them, and the older ones stand behind, with room for more of
--            them; it is read and written in parts.
--
--   mark     4 bytes that no text begins with: the first is 3 where the string is whole, 4 where it is in parts
--   expires  6 bytes: when the key expires, as far as this script has seen to it
--   floor    6 bytes: the units up to then are dropped, though their records stay until there is no room
--   older    records behind the first PAGE bytes, 6 bytes
--   room     records for which there is room behind them, 6 bytes
--
-- Times are µs of the server's clock, without what is above 48 bits: of those that they may be, the one nearest to now,
-- which is less than five years away. They are compared as numbers, for how strings compare is a matter of the server's locale.
-- A record is never of zeros: one µs in nine years is recorded as the next.
--
-- It decides as sliding-log does: a rule (count, window) sees the units with a time > now - window, those later than
-- now too, and denies a cost if the unit at rank count - cost + 1 from the newest is one of them. A unit of rank n is
-- one record at a place that follows from n, so that the length of the log is no matter for a decision. It is only
-- where a clock was set back, where an admission is given back that is not among the newest, and where there is no room
-- left, once in an eighth of the log's length. The parts are small because Lua hashes every byte of a string that it is given
-- or makes.
--
-- What is given back is found by when it was charged: units of one µs are the same, whosever they are. So it is given back
-- once, and only where it is known when it was charged, or else it may be another's. Nothing is taken where there are fewer
-- units of that µs.

local LONG_HEAD = 28

local byte = string.byte
local now48 = now % 281474976710656

-- time returns the integer nearest to now that has these for its last 48 bits.
local function time(a, b, c, d, e, f)
  local later = ((a * 256 + b) * 256 + c) * 16777216 + (d * 256 + e) * 256 + f - now48
  if later > 140737488355327 then
    later = later - 281474976710656
  elseif later < -140737488355328 then
    later = later + 281474976710656
  end
  return now + later
end

-- A limit's log is what is known of the string: its text, start, floor, older, units and expires. text is its first PAGE bytes, in
-- which the newest records begin at byte start; there are older ones behind them, and units of both. expires is of no log
-- without units.

-- ending returns where the zeros begin behind the records of a string in parts.
local function ending(text)
  local from = LONG_HEAD + 1
  repeat
    local zeros = string.find(text, ZEROS, from, true) or PAGE
    from = LONG_HEAD + 1 + math.ceil((zeros - LONG_HEAD - 1) / RECORD) * RECORD
  until from > PAGE or string.sub(text, from, from + RECORD - 1) == ZEROS
  return from
end

-- read returns what there is of the first PAGE bytes.
local function read(key) return redis.call('GETRANGE', key, '0', '147') end

-- know finds out all of the log from what was read, and returns its units. Another program's string is refused, as the server refuses a
-- key of another type.
local function know(limit, text)
  local size, units = #text, 0
  if limit.floor ~= 0 then
    limit.start, limit.floor, limit.older = SHORT_HEAD + 1, 0, 0
  end
  if size > 0 then
    local kind, l, o, g, a, b, c, d, e, f = byte(text, 1, 10)
    local mine = l == 108 and o == 111 and g == 103
    units = (size - SHORT_HEAD) / RECORD
    if mine and kind == 3 and size < PAGE and units > 0 and units % 1 == 0 then
      limit.expires = time(a, b, c, d, e, f)
    elseif mine and kind == 4 and size == PAGE then
      limit.start, limit.floor, limit.older = LONG_HEAD + 1, time(byte(text, 11, 16)), number(byte(text, 17, 22))
      limit.expires, units = time(a, b, c, d, e, f), limit.older + (ending(text) - LONG_HEAD - 1) / RECORD
    else
      redis.call('ZCOUNT', limit.key, 0, 0)
    end
  end
  limit.text, limit.units = text, units
  return units
end

-- at returns the time of a record, numbered from 0 for the oldest.
local function at(limit, i)
  if i >= limit.older then
    local from = limit.start + (i - limit.older) * RECORD
    return time(byte(limit.text, from, from + 5))
  end
  local from = PAGE + i * RECORD
  return time(byte(redis.call('GETRANGE', limit.key, integer(from), integer(from + 5)), 1, 6))
end

-- probe finds out, too, whether the log is full: it has as many units as the largest count needs once the cost is charged. What has been read
-- for a short way is not read again.
local function probe(limit)
  local units, cost, rules, allowed, full = know(limit, limit.found or read(limit.key)), limit.cost, limit.rules, true, true
  limit.found = nil
  limit.written = false
  if cost == 0 then
    return true
  end
  for i = 1, #rules do
    local rule = rules[i]
    local rank = rule.count - cost + 1
    if rank < 1 then
      rule.retry, allowed = -1, false
    elseif rank > units then
      full = false
    else
      local charged = at(limit, units - rank)
      if charged <= limit.floor then
        full = false
      elseif charged > now - rule.window then
        rule.retry, allowed = charged + rule.window - now, false
      end
    end
  end
  limit.full = full
  return allowed
end

-- others makes what few calls need.
local function others()
  local KEPT = 10   -- newest records that stay within the first PAGE bytes when older ones leave them
  local CHUNK = 64  -- records that are read at once where one of several is looked for

  -- records returns the records from and below to.
  local function records(limit, from, to)
    if from >= to then
      return ''
    end
    local older, behind = limit.older, ''
    if from < older then
      local last = math.min(to, older)
      behind = redis.call('GETRANGE', limit.key, integer(PAGE + from * RECORD), integer(PAGE + last * RECORD - 1))
      from = last
    end
    return behind .. string.sub(limit.text, limit.start + (from - older) * RECORD, limit.start - 1 + (to - older) * RECORD)
  end

  -- later returns the first record of low and below high that is later than an edge, high if none is. They are read at
  -- once where they are few.
  local function later(limit, edge, low, high)
    local text, from
    while low < high do
      if not text and high - low <= CHUNK then
        text, from = records(limit, low, high), low
      end
      local middle = math.floor((low + high) / 2)
      local first = text and (middle - from) * RECORD + 1
      local found = text and time(byte(text, first, first + 5)) or at(limit, middle)
      if found > edge then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- rest returns the records from and below to that are not dropped.
  local function rest(limit, from, to)
    return records(limit, later(limit, limit.floor, from, to), to)
  end

  local function long_head(expires, floor, older, room)
    return '\4log' .. pack(expires) .. pack(floor) .. pack(older) .. pack(room)
  end

  -- write makes records all there are of the log.
  local function write(limit, all, expires, ...)
    local units = #all / RECORD
    if units == 0 then
      redis.call('PEXPIRE', limit.key, 0)
    elseif SHORT_HEAD + #all < PAGE then
      redis.call('SET', limit.key, '\3log' .. pack(expires) .. all, ...)
    else
      local older, room = units - KEPT, math.max((PAGE - LONG_HEAD) / RECORD - KEPT, math.floor(units / 8))
      local page = long_head(expires, time(byte(all, 1, 6)) - 1, older, room) .. string.sub(all, older * RECORD + 1)
      redis.call('SET', limit.key, page .. string.rep('\0', PAGE - #page) .. string.sub(all, 1, older * RECORD) ..
        string.rep('\0', room * RECORD), ...)
    end
  end

  -- turn moves records from the first PAGE bytes to those behind, and returns whether there was room for them.
  local function turn(limit, added, expires)
    local older, room = limit.older, number(byte(limit.text, 23, 28))
    local newer = records(limit, older, limit.units) .. added
    local moved = #newer / RECORD - KEPT
    if moved > room then
      return false
    end
    redis.call('SETRANGE', limit.key, integer(PAGE + older * RECORD), string.sub(newer, 1, moved * RECORD))
    redis.call('SETRANGE', limit.key, '0', long_head(expires, limit.floor, older + moved, room - moved) ..
      string.sub(newer, moved * RECORD + 1) .. string.rep('\0', PAGE - LONG_HEAD - KEPT * RECORD))
    return true
  end

  -- insert adds records of a time. The key expires at expires: in ms, if that is new. stale says that there are records of
  -- times so long ago that they are to be dropped at once.
  local function insert(limit, charged, added, expires, ms, stale)
    local units = limit.units
    local place = units
    if units > 0 and at(limit, units - 1) > charged then
      place = later(limit, charged, 0, units)
    elseif limit.older > 0 and charged > limit.floor and not stale and turn(limit, added, expires) then
      if ms then
        redis.call('PEXPIRE', limit.key, ms)
      end
      return
    end
    local all = rest(limit, 0, place) .. added .. rest(limit, place, units)
    if ms then
      write(limit, all, expires, 'PX', ms)
    else
      write(limit, all, expires, 'KEEPTTL')
    end
  end

  -- cut takes records away.
  local function cut(limit, from, to)
    if limit.older > 0 and from >= limit.older then
      redis.call('SETRANGE', limit.key, integer(limit.start - 1 + (from - limit.older) * RECORD),
        records(limit, to, limit.units) .. string.rep('\0', (to - from) * RECORD))
    else
      write(limit, rest(limit, 0, from) .. rest(limit, to, limit.units), limit.expires, 'KEEPTTL')
    end
  end

  local function discharge(limit, _, at_time)
    know(limit, read(limit.key))
    limit.written = true
    local cost, units, charged = limit.cost, limit.units, time(byte(record(at_time + limit.ahead), 1, 6))
    local first = later(limit, charged - 1, 0, units)
    if cost > 0 and first + cost <= units and at(limit, first + cost - 1) == charged then
      cut(limit, first, first + cost)
    end
  end

  local function revert(limit)
    if limit.written then
      discharge(limit, nil, now)
    end
  end

  local function grant(limit)
    local units = limit.units
    if units > 0 then
      cut(limit, math.max(0, units - limit.cost), units)
    end
  end

  local function describe(limit)
    if limit.written then
      know(limit, read(limit.key))
    end
    local units = limit.units
    local last = units > 0 and at(limit, units - 1) or 0
    for _, rule in ipairs(limit.rules) do
      local edge = math.max(now - rule.window, limit.floor)
      rule.remaining, rule.reset = rule.count, 0
      if last > edge then
        local low = math.max(0, units - rule.count)
        rule.remaining = rule.count - (units - later(limit, edge, low, units))
        rule.reset = last + rule.window - now
      end
    end
  end

  return {insert = insert, revert = revert, discharge = discharge, grant = grant, describe = describe}
end

local stamp, insert -- the record of now, and a function of others: both once they are needed

-- settle adds the cost's units, drops what no rule sees any more where there is enough of it, and puts off the key's
-- expiry if it is near. It never brings it forward.
local function settle(limit)
  local text, units, older, floor, ahead, full = limit.text, limit.units, limit.older, limit.floor, limit.ahead, limit.full
  local charged = now + ahead
  if not limit.soon then
    limit.soon, limit.lasting, limit.ends = horizon(limit.window + ahead)
  end
  local near = units == 0 or limit.expires < limit.soon
  if full then
    floor = math.max(floor, now - limit.window)
  end
  local stale = floor < now - 2 * LONGEST -- 48 bits tell times of nine years apart
  if stale then
    floor = now - LONGEST
  end
  limit.written = true
  stamp = stamp or record(now)
  local added = ahead == 0 and stamp or record(charged)
  if limit.cost > 1 then
    added = string.rep(added, limit.cost)
  end
  local place, last = limit.start - 1 + (units - older) * RECORD, 0
  if units > older then
    last = time(byte(text, place - 5, place))
  elseif units > 0 then
    last = at(limit, units - 1)
  end
  if last > charged or place + #added >= PAGE or charged <= floor or stale and older > 0 then
    limit.floor = floor
    insert = insert or others().insert
    insert(limit, charged, added, near and limit.ends or limit.expires, near and limit.lasting, stale)
  elseif older > 0 then
    redis.call('SETRANGE', limit.key, integer(place), added)
    if near or floor ~= limit.floor then
      redis.call('SETRANGE', limit.key, '4', (near and pack(limit.ends) or string.sub(text, 5, 10)) .. pack(floor))
    end
    if near then
      redis.call('PEXPIRE', limit.key, limit.lasting)
    end
  elseif near or full then
    local from = limit.start
    while from <= place and time(byte(text, from, from + 5)) <= floor do
      from = from + RECORD
    end
    if near then
      redis.call('SET', limit.key, '\3log' .. pack(limit.ends) .. string.sub(text, from) .. added, 'PX', limit.lasting)
    else
      redis.call('SET', limit.key, string.sub(text, 1, SHORT_HEAD) .. string.sub(text, from) .. added, 'KEEPTTL')
    end
  else
    redis.call('APPEND', limit.key, added)
  end
end

return {probe = probe, settle = settle, make_others = others}
