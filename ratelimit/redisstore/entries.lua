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
-- The functions of an algorithm take a rule, which has its entry's ends and body, both nil where it has none, and the
-- limit's option:
--
--   ask(rule, cost, option)         returns the retry: µs, 0 allowed, -1 never; and, if that is its note, what a
--                                   call is noted by that is allowed
--   begin(limit)                    of an algorithm that has one, is called before the rules are charged
--   charge(rule, cost, option, ahead)
--                                   returns the ends and body of the entry with the cost, charged as of ahead µs from now
--   back(rule, cost, option, at, ahead, note)
--                                   returns the ends and body of the entry, which there is, without a cost that was charged
--                                   at at, as of ahead µs later, and noted so; nil if nothing is left
--   grant(rule, cost, option)       returns the ends and body of the entry, which there is, without the units that were charged
--                                   last; nil if nothing is left
--   describe(rule, option)          returns remaining and reset (µs)

local SLACK_AFTER_END = 1000 -- ms that a key outlives its last entry

-- sift keeps the entries that are no rule's as limit.others, until they end. A string of anything but entries is another
-- program's: the server is made to refuse it as it refuses a key of another type.
local function sift(limit)
  local others, last, length, mine = '', 0, 0, {}
  for i = 1, #limit.rules do
    mine[limit.rules[i].name] = true
  end
  for whole, tag, ends in string.gmatch(limit.old, '((%a[%d/]+):(%d+):?%S* ?)') do
    length = length + #whole
    if not mine[tag] and ends + 0 > now then
      others, last = others .. ' ' .. string.match(whole, '%S+'), math.max(last, ends + 0)
    end
  end
  if length ~= #limit.old then
    redis.call('ZCOUNT', limit.key, 0, 0)
  end
  limit.others, limit.last = others, last
end

-- load reads the rules' entries: those that have not ended.
local function load(limit)
  local old = redis.call('GET', limit.key)
  local rest = old and #old + 1 or 0 -- bytes of what is no rule's, a space behind each entry
  limit.old, limit.others, limit.last, limit.written = old, '', 0, false
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    local ends, body
    if not rule.name then
      rule.name = letter .. rule.tag .. (steps.apart and '/' .. integer(limit.option) or '')
    end
    if old then
      ends, body = string.match(old, rule.name .. ':(%d+):?(%S*)')
    end
    if ends then
      rest = rest - #rule.name - #ends - #body - (body == '' and 2 or 3)
      ends = ends + 0
      if ends <= now then
        ends, body = nil, nil
      end
    end
    rule.ends, rule.body = ends, body
  end
  if rest ~= 0 then
    sift(limit)
  end
end

-- text returns the string and when the last of its entries ends.
local function text(limit)
  local value, last = '', limit.last
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    if rule.ends then
      local entry = rule.name .. ':' .. integer(rule.ends)
      if rule.body ~= '' then
        entry = entry .. ':' .. rule.body
      end
      if value ~= '' then
        entry = value .. ' ' .. entry
      end
      value, last = entry, math.max(last, rule.ends)
    end
  end
  if value == '' then
    value = string.sub(limit.others, 2)
  elseif limit.others ~= '' then
    value = value .. limit.others
  end
  return value, last
end

local function probe(limit)
  load(limit)
  local allowed, cost = true, limit.cost
  if cost == 0 then
    return true
  end
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    rule.retry, rule.note = steps.ask(rule, cost, limit.option)
    if rule.retry ~= 0 then
      allowed = false
    end
  end
  return allowed
end

local function settle(limit)
  if steps.begin then
    steps.begin(limit)
  end
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    rule.ends, rule.body = steps.charge(rule, limit.cost, limit.option, limit.ahead)
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

  -- lessen makes less of each entry by a function of algorithms, and by what else that takes.
  local function lessen(limit, by, ...)
    load(limit)
    if limit.cost == 0 or not limit.old then
      return
    end
    for _, rule in ipairs(limit.rules) do
      if rule.ends then
        rule.ends, rule.body = by(rule, limit.cost, limit.option, ...)
      end
    end
    local value = text(limit)
    if value == '' then
      redis.call('PEXPIRE', limit.key, 0)
    elseif value ~= limit.old then
      redis.call('SET', limit.key, value, 'KEEPTTL')
    end
  end

  local function discharge(limit, _, at)
    lessen(limit, steps.back, at + 0, limit.ahead, limit.note)
  end

  local function grant(limit)
    lessen(limit, steps.grant)
  end

  local function describe(limit)
    for _, rule in ipairs(limit.rules) do
      rule.remaining, rule.reset = steps.describe(rule, limit.option)
    end
  end

  return {revert = revert, discharge = discharge, grant = grant, describe = describe}
end

return {probe = probe, settle = settle, make_others = others, notes = steps.notes}
