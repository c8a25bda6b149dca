-- entries: the frame's side of every algorithm that keeps one string at a limit's key. Such an algorithm is a letter
-- and pure functions on one entry, which is what one rule counts.
--
-- The string is entries with spaces between them, each <letter><window>:<ends> or <letter><window>:<ends>:<body>, with
-- <window>/<option> in place of <window> where an algorithm keeps those of different options apart
--
--   window  of the rule, µs. A rule whose count changes finds its entry again; one whose window changes begins anew
--   ends    µs of the server's clock from when the entry says nothing any more: it is then as if it were not there
--   body    the algorithm's, without spaces
--
-- What other rules and other algorithms have written stays until it ends, so that two versions of a service that share
-- the key do not take each other's counts away.
--
-- The functions of an algorithm, with entry nil where there is none, and option the limit's:
--
--   ask(entry, rule, cost, now, option)         returns the retry: µs, 0 allowed, -1 never; and, of an algorithm that
--                                               delays calls, the delay of one that is allowed: µs
--   charge(entry, rule, cost, now, option)      returns the entry with the cost, {ends, body}
--   back(entry, rule, cost, at, now, option)    returns the entry without a cost that was charged at at, or nil
--   describe(entry, rule, now, option)          returns remaining and reset (µs)

local SLACK_AFTER_END = 1000 -- ms that a key outlives its last entry

local function integer(n)
  return string.format('%.0f', n)
end

-- load reads the string. One that has anything but entries is another program's: the server is made to refuse it as
-- it refuses a key of another type.
local function load(limit, now)
  limit.old, limit.tags, limit.entries, limit.written = redis.call('GET', limit.key), {}, {}, false
  if not limit.old then
    return
  end
  local tag, ends, body = string.match(limit.old, '^(%a%d+/?%d*):(%d+):?(%S*)$')
  if tag then -- most strings have one entry
    ends = tonumber(ends)
    if ends > now then
      limit.tags[1], limit.entries[tag] = tag, {ends = ends, body = body}
    end
    return
  end
  local length = 0
  for whole, tag, ends, body in string.gmatch(limit.old, '((%a%d+/?%d*):(%d+):?(%S*) ?)') do
    length = length + #whole
    local entry = {ends = tonumber(ends), body = body}
    if entry.ends > now then
      limit.tags[#limit.tags + 1] = tag
      limit.entries[tag] = entry
    end
  end
  if length ~= #limit.old then
    redis.call('ZCOUNT', limit.key, 0, 0)
  end
end

-- text returns the string and when the last of its entries ends.
local function text(limit)
  local parts, last = {}, 0
  for _, tag in ipairs(limit.tags) do
    local entry = limit.entries[tag]
    if entry then
      local part = tag .. ':' .. integer(entry.ends)
      if entry.body ~= '' then
        part = part .. ':' .. entry.body
      end
      parts[#parts + 1] = part
      last = math.max(last, entry.ends)
    end
  end
  return table.concat(parts, ' '), last
end

local function remove(key)
  redis.call('PEXPIRE', key, 0)
end

local function put(limit, tag, entry)
  if not limit.entries[tag] then
    limit.tags[#limit.tags + 1] = tag
  end
  limit.entries[tag] = entry
end

-- keep makes an algorithm for the frame.
local function keep(letter, steps)
  local function tag_of(limit, rule)
    local tag = letter .. rule.span
    if steps.apart then
      tag = tag .. '/' .. integer(limit.option)
    end
    return tag
  end

  local function find(limit, rule)
    return limit.entries[tag_of(limit, rule)]
  end

  local function probe(limit, now)
    load(limit, now)
    local allowed = true
    for _, rule in ipairs(limit.rules) do
      rule.retry = 0
      if limit.cost > 0 then
        rule.retry, rule.delay = steps.ask(find(limit, rule), rule, limit.cost, now, limit.option)
      end
      if rule.retry ~= 0 then
        allowed = false
      end
    end
    return allowed
  end

  local function charge()
    return true
  end

  local function settle(limit, now)
    for _, rule in ipairs(limit.rules) do
      put(limit, tag_of(limit, rule), steps.charge(find(limit, rule), rule, limit.cost, now, limit.option))
    end
    local value, last = text(limit)
    redis.call('SET', limit.key, value, 'PX', integer(math.ceil((last - now) / 1000) + SLACK_AFTER_END))
    limit.written = true
  end

  local function revert(limit)
    if not limit.written then
      return
    end
    if limit.old then
      redis.call('SET', limit.key, limit.old, 'KEEPTTL')
    else
      remove(limit.key)
    end
  end

  local function discharge(limit, _, at, now)
    load(limit, now)
    if limit.cost == 0 then
      return
    end
    for _, rule in ipairs(limit.rules) do
      local entry = find(limit, rule)
      if entry then
        limit.entries[tag_of(limit, rule)] = steps.back(entry, rule, limit.cost, at, now, limit.option)
      end
    end
    local value = text(limit)
    if not limit.old or value == limit.old then
      return
    end
    if value == '' then
      remove(limit.key)
    else
      redis.call('SET', limit.key, value, 'KEEPTTL')
    end
  end

  local function describe(limit, now)
    for _, rule in ipairs(limit.rules) do
      rule.remaining, rule.reset = steps.describe(find(limit, rule), rule, now, limit.option)
    end
  end

  return {
    probe = probe, charge = charge, settle = settle, revert = revert, discharge = discharge, describe = describe,
    forgetful = true, delays = steps.delays,
  }
end
