-- compact-log: the sliding log in one string at the limit's key. Every unit of cost admitted is one record of it.
--
--   record   when the unit was admitted, µs of the server's clock, and the base of its admission: integers of 7 and 6
--            bytes, the first byte the highest
--   string   <mark><expires> and the records in the order of their times, oldest first, those of one admission
--            together; it is read and written whole. From WHOLE bytes on, there is room behind the records, and
--            <mark><expires><floor><last><units><room> before them; it is read and written in parts.
--
--   mark     4 bytes that no text begins with; one for each of the two
--   expires  µs, 7 bytes: when the key expires, as far as this script has seen to it
--   floor    µs, 7 bytes: the units up to then are dropped, though their records stay until there is no room
--   last     µs, 7 bytes: when the newest unit was admitted
--   units    records, 4 bytes
--   room     records that the string is long enough for, 4 bytes
--
-- It decides as sliding-log does: a rule (count, window) sees the units with a time > now - window, those later than
-- now too, and denies a cost if the unit at rank count - cost + 1 from the newest is one of them. A unit of rank n is
-- one record at a place that follows from n, so that the length of the log is no matter for a decision. It is only
-- where a clock was set back, where an admission is given back (with what is newer), and where there is no room left, once in
-- a quarter of the log's length.
--
-- Two admissions of one base are both counted; what gives one of them back takes the newer.

local WHOLE = 512               -- bytes of a string from which on it is read in parts
local CHUNK = 128              -- records that are read at once where one of several is looked for
local SLACK_AFTER_WINDOW = 1000 -- ms that a key outlives its newest unit's last window

local TIME, RECORD = 7, 13
local SHORT, LONG = '\1log', '\2log'
local SHORT_HEAD, LONG_HEAD = 11, 33

local byte, char, floor, sub, find, rep = string.byte, string.char, math.floor, string.sub, string.find, string.rep

-- pack4, pack6 and pack7 are integers as so many bytes.
local function pack4(n)
  local d = n % 256
  n = (n - d) / 256
  local c = n % 256
  n = (n - c) / 256
  local b = n % 256
  return char((n - b) / 256, b, c, d)
end

local function pack7(n)
  local low = n % 16777216
  n = (n - low) / 16777216
  local d = n % 256
  n = (n - d) / 256
  local c = n % 256
  n = (n - c) / 256
  local b = n % 256
  local g = low % 256
  low = (low - g) / 256
  local f = low % 256
  return char((n - b) / 256, b, c, d, (low - f) / 256, f, g)
end

local function pack6(n)
  return sub(pack7(n), 2)
end

local function unpack4(s, at)
  local a, b, c, d = byte(s, at, at + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

local function unpack7(s, at)
  local a, b, c, d, e, f, g = byte(s, at, at + 6)
  return ((a * 256 + b) * 256 + c) * 4294967296 + ((d * 256 + e) * 256 + f) * 256 + g
end

-- A log is what is known of the string: {key, expires, floor, last, units, room}, room being 0 if it is read whole,
-- and the records from and below to, which begin at a byte of text.

local function hold(log, text, from, to, start)
  log.text, log.from, log.to, log.start = text, from, to, start
end

local function read(log, from, to)
  return redis.call('GETRANGE', log.key, LONG_HEAD + from * RECORD, LONG_HEAD + to * RECORD - 1)
end

-- records returns the records from and below to.
local function records(log, from, to)
  if from >= to then
    return ''
  end
  if from >= log.from and to <= log.to then
    return sub(log.text, log.start + (from - log.from) * RECORD, log.start - 1 + (to - log.from) * RECORD)
  end
  return read(log, from, to)
end

-- at returns the time of a record, numbered from 0 for the oldest.
local function at(log, i)
  if i < log.from or i >= log.to then
    hold(log, read(log, i, i + 1), i, i + 1, 1)
  end
  return unpack7(log.text, log.start + (i - log.from) * RECORD)
end

-- after returns the first record from low on that is later than a time, the number of records if none is.
local function after(log, time, low)
  local high = log.units
  if log.last <= time then
    return high
  end
  if low < high and at(log, low) > time then
    return low
  end
  while low < high do
    if high - low <= CHUNK and (low < log.from or high > log.to) then
      hold(log, read(log, low, high), low, high, 1)
    end
    local middle = floor((low + high) / 2)
    if at(log, middle) > time then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- whole is the log of a string that is read whole.
local function whole(key, text)
  local log = {key = key, expires = unpack7(text, 5), floor = 0, room = 0, units = (#text - SHORT_HEAD) / RECORD}
  hold(log, text, 0, log.units, SHORT_HEAD + 1)
  log.last = at(log, log.units - 1)
  return log
end

local function empty(key)
  return {key = key, expires = 0, floor = 0, last = 0, units = 0, room = 0, from = 0, to = 0}
end

-- load reads the string. Another program's is refused, as the server refuses a key of another type.
local function load(key)
  local text = redis.call('GETRANGE', key, 0, WHOLE - 1)
  local mark = sub(text, 1, 4)
  if text == '' then
    return empty(key)
  end
  if mark == SHORT and #text < WHOLE and #text > SHORT_HEAD and (#text - SHORT_HEAD) % RECORD == 0 then
    return whole(key, text)
  end
  if mark == LONG and #text == WHOLE then
    return {
      key = key, expires = unpack7(text, 5), floor = unpack7(text, 12), last = unpack7(text, 19),
      units = unpack4(text, 26), room = unpack4(text, 30), from = 0, to = 0,
    }
  end
  redis.call('ZCOUNT', key, 0, 0)
end

local function head(log)
  return LONG .. pack7(log.expires) .. pack7(log.floor) .. pack7(log.last) .. pack4(log.units) .. pack4(log.room)
end

-- rewrite makes records all there are of the log, and returns the log then.
local function rewrite(log, all, ...)
  local units = #all / RECORD
  if SHORT_HEAD + #all < WHOLE then
    local text = SHORT .. pack7(log.expires) .. all
    redis.call('SET', log.key, text, ...)
    return whole(log.key, text)
  end
  log.floor, log.units, log.room = 0, units, units + floor(units / 4)
  hold(log, all, 0, units, 1)
  log.last = at(log, units - 1)
  redis.call('SET', log.key, head(log) .. all .. rep('\0', (log.room - units) * RECORD), ...)
  return log
end

-- insert adds records of a time, and returns the log then. ms is when to let the key expire, nil to let it be.
local function insert(log, time, added, ms)
  if log.units + #added / RECORD <= log.room and time > log.floor then
    local place = after(log, time, 0)
    redis.call('SETRANGE', log.key, LONG_HEAD + place * RECORD, added .. records(log, place, log.units))
    log.units, log.last = log.units + #added / RECORD, math.max(log.last, time)
    hold(log, nil, 0, 0, 1)
    redis.call('SETRANGE', log.key, 0, head(log))
    if ms then
      redis.call('PEXPIRE', log.key, ms)
    end
    return log
  end
  local first = after(log, log.floor, 0)
  local place = math.max(first, after(log, time, 0))
  local all = records(log, first, place) .. added .. records(log, place, log.units)
  if ms then
    return rewrite(log, all, 'PX', ms)
  end
  return rewrite(log, all, 'KEEPTTL')
end

-- cut takes records away, and returns the log then.
local function cut(log, from, to)
  if log.units == to - from then
    redis.call('PEXPIRE', log.key, 0)
    return empty(log.key)
  end
  local rest = records(log, to, log.units)
  if log.room == 0 then
    return rewrite(log, records(log, 0, from) .. rest, 'KEEPTTL')
  end
  if rest ~= '' then
    redis.call('SETRANGE', log.key, LONG_HEAD + from * RECORD, rest)
  else
    log.last = at(log, from - 1)
  end
  log.units = log.units - (to - from)
  hold(log, nil, 0, 0, 1)
  redis.call('SETRANGE', log.key, 0, head(log))
  return log
end

-- first returns the first of some records that has a base, numbered from 0, or nil.
local function first(text, base)
  local found = find(text, base, 1, true)
  while found and (found - 1) % RECORD ~= TIME do
    found = find(text, base, found + 1, true)
  end
  return found and (found - 1 - TIME) / RECORD
end

-- seek returns the first record of the newest admission of a base and a cost, or nil.
local function seek(log, base, cost)
  local to = log.units
  while to > 0 do
    local from = math.max(0, to - CHUNK)
    local found = first(records(log, from, to), base)
    if found then
      local low = math.max(0, from + found - cost + 1)
      found = low + first(records(log, low, from + found + 1), base)
      return first(records(log, found + cost - 1, found + cost), base) and found
    end
    to = from
  end
end

-- probe sets the retry (µs; 0 allowed, -1 never) of every rule, and full: the log has more units than the largest
-- count needs once the cost is charged. It returns whether every rule allows the cost.
local function probe(limit, now)
  local log = load(limit.key)
  limit.log, limit.full = log, true
  local allowed = true
  for _, rule in ipairs(limit.rules) do
    local rank = rule.count - limit.cost + 1
    rule.retry = 0
    if limit.cost > 0 and rank < 1 then
      rule.retry = -1
    elseif limit.cost > 0 then
      local time = rank <= log.units and at(log, log.units - rank) or 0
      if time <= log.floor then
        limit.full = false
      elseif time > now - rule.window then
        rule.retry = time + rule.window - now
      end
    end
    if rule.retry ~= 0 then
      allowed = false
    end
  end
  return allowed
end

local function charge(limit, base)
  limit.base = base
  return true
end

-- settle adds the cost's units, drops what no rule sees any more where there is enough of it, and puts off the key's
-- expiry if it is near. It never brings it forward.
local function settle(limit, now)
  local log, window = limit.log, 0
  for _, rule in ipairs(limit.rules) do
    window = math.max(window, rule.window)
  end
  local ms, expire = math.ceil(window / 1000)
  if floor((log.expires - now) / 1000) <= ms then
    expire = integer(ms + SLACK_AFTER_WINDOW)
    log.expires = now + (ms + SLACK_AFTER_WINDOW) * 1000
  end
  if limit.full then
    log.floor = math.max(log.floor, now - window)
  end
  limit.written = true
  limit.log = insert(log, now, rep(pack7(now) .. pack6(tonumber(limit.base)), limit.cost), expire)
end

local function discharge(limit, base)
  limit.log = load(limit.key)
  if limit.cost > 0 then
    local from = seek(limit.log, pack6(tonumber(base)), limit.cost)
    if from then
      limit.log = cut(limit.log, from, from + limit.cost)
    end
  end
end

local function revert(limit, base)
  if limit.written then
    discharge(limit, base)
  end
end

-- describe sets remaining and reset (µs) of every rule, as the key now stands.
local function describe(limit, now)
  local log = limit.log
  for _, rule in ipairs(limit.rules) do
    local edge = math.max(now - rule.window, log.floor)
    rule.remaining, rule.reset = rule.count, 0
    if log.last > edge then
      rule.remaining = rule.count - (log.units - after(log, edge, math.max(0, log.units - rule.count)))
      rule.reset = log.last + rule.window - now
    end
  end
end

return {
  probe = probe, charge = charge, settle = settle, revert = revert, discharge = discharge, describe = describe,
}
