-- entries: the frame's side of every algorithm that keeps one string at a limit's key. Such an algorithm is a letter
-- and pure functions on one entry, which is what one rule counts. This is the body of entries(letter, steps), which makes
-- the algorithm.
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

-- load reads the string into entries: those that have not ended by their tags, and the tags in their order. One that has anything but entries is another program's: the server is made to refuse it as
-- it refuses a key of another type.
local function load(limit, now)
  local old, entries = redis.call('GET', limit.key), {}
  limit.old, limit.entries = old, entries
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    rule.tag = letter .. rule.tag
    if steps.apart then
      rule.tag = rule.tag .. '/' .. integer(limit.option)
    end
  end
  if not old then
    return
  end
  if not string.find(old, '%s') then -- most strings have one entry
    local tag, ends, body = string.match(old, '^(%a[%d/]+):(%d+):?(.*)$')
    if tag then
      ends = ends + 0
      if ends > now then
        entries[1], entries[tag] = tag, {ends = ends, body = body}
      end
      return
    end
  end
  local length = 0
  for whole, tag, ends, body in string.gmatch(old, '((%a[%d/]+):(%d+):?(%S*) ?)') do
    length = length + #whole
    ends = ends + 0
    if ends > now then
      entries[#entries + 1], entries[tag] = tag, {ends = ends, body = body}
    end
  end
  if length ~= #old then
    redis.call('ZCOUNT', limit.key, 0, 0)
  end
end

-- text returns the string and when the last of its entries ends.
local function text(limit)
  local value, last = '', 0
  for _, tag in ipairs(limit.entries) do
    local entry = limit.entries[tag]
    if entry then
      if value ~= '' then
        value = value .. ' '
      end
      value = value .. tag .. ':' .. integer(entry.ends)
      if entry.body ~= '' then
        value = value .. ':' .. entry.body
      end
      last = math.max(last, entry.ends)
    end
  end
  return value, last
end

local function probe(limit, now)
  load(limit, now)
  local allowed, cost = true, limit.cost
  if cost == 0 then
    return true
  end
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    local retry, delay = steps.ask(limit.entries[rule.tag], rule, cost, now, limit.option)
    if retry ~= 0 then
      rule.retry, allowed = retry, false
    elseif delay then
      rule.delay = delay
    end
  end
  return allowed
end

local function charge()
  return true
end

local function settle(limit, now)
  local entries = limit.entries
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    local entry = entries[rule.tag]
    if not entry then
      entries[#entries + 1] = rule.tag
    end
    entries[rule.tag] = steps.charge(entry, rule, limit.cost, now, limit.option)
  end
  local value, last = text(limit)
  redis.call('SET', limit.key, value, 'PX', integer(math.ceil((last - now) / 1000) + SLACK_AFTER_END))
  limit.written = true
end

-- others makes what few calls need.
local function others()
  local function revert(limit)
    if not limit.written then
      return
    end
    if limit.old then
      redis.call('SET', limit.key, limit.old, 'KEEPTTL')
    else
      redis.call('PEXPIRE', limit.key, 0)
    end
  end

  local function discharge(limit, _, at, now)
    load(limit, now)
    if limit.cost == 0 then
      return
    end
    for _, rule in ipairs(limit.rules) do
      local entry = limit.entries[rule.tag]
      if entry then
        limit.entries[rule.tag] = steps.back(entry, rule, limit.cost, at, now, limit.option)
      end
    end
    local value = text(limit)
    if not limit.old or value == limit.old then
      return
    end
    if value == '' then
      redis.call('PEXPIRE', limit.key, 0)
    else
      redis.call('SET', limit.key, value, 'KEEPTTL')
    end
  end

  local function describe(limit, now)
    for _, rule in ipairs(limit.rules) do
      rule.remaining, rule.reset = steps.describe(limit.entries[rule.tag], rule, now, limit.option)
    end
  end

  return {revert = revert, discharge = discharge, describe = describe}
end

return {
  probe = probe, charge = charge, settle = settle, make_others = others, forgetful = true, delays = steps.delays,
}
