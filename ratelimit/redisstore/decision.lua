-- decision: how a decision is made, whatever it asks for. This is the body of make_decision(decision, reply): decision is the one that is being made,
-- and reply the script's. None of the algorithms knows of more than one limit.
--
-- An algorithm is functions of a limit, {option, ahead, rules, window, key, cost}, with window the longest of its rules, and a
-- rule {count, window, retry}. They keep in both what one decision needs, which the next one finds there:
--
--   probe(limit)                sets the retry of every rule that denies the cost, and returns whether none does
--   charge(limit, base)         charges as far as it can be taken back, and returns false, having changed nothing, if the
--                               base is another admission's. An algorithm whose settle does it all has none
--   settle(limit)               charges, and does what is not taken back
--   refuse(limit, before)       of a door: the call is denied, and what the limit before it in the decision has to do with that
--   close(limit, time)          of a door
--   make_others()               makes the functions that few calls need
--     revert(limit, base)       takes back what charge and settle have done in this decision
--     discharge(limit, base, at)  gives back what a take charged at that time; not of a door
--     grant(limit)              takes back the units of the cost that were charged last, as far as there are so many; not of a
--                               queue, nor of a door
--     describe(limit)           sets the remaining and reset of every rule, as the key now stands
--
-- probe is followed by any of the others, in this order, or by describe and discharge, and discharge by describe. probe and describe write nothing.

local DENIED, DONE, TAKEN, FAILED = 0, 1, 2, 3
local TAKE, BACK, RESET, CLOSE, PEEK, GRANT = '0', '1', '2', '3', '4', '5'

local algorithms = {} -- by their places

-- read_limits returns the limits, and the place in ARGV where the runs begin.
local function read_limits()
  local limits, at = {}, 2
  for i = 1, ARGV[1] + 0 do
    local rules, longest = {}, 0
    local limit = {place = ARGV[at], option = ARGV[at + 1] + 0, ahead = ARGV[at + 2] + 0, rules = rules, window = 0, key = '', cost = 0}
    local first = at + 4
    at = first + 2 * ARGV[at + 3]
    for j = first, at - 1, 2 do
      local window = ARGV[j + 1] + 0
      if window > longest then
        longest = window
      end
      rules[#rules + 1] = {count = ARGV[j] + 0, window = window, tag = ARGV[j + 1], retry = 0}
    end
    limit.window, limits[i] = longest, limit
  end
  return limits, at
end

local limits, runs = read_limits()
decision.limits, decision.next = {}, runs

-- next_run makes ready for the decisions of the next run, and returns whether there is one. What it finds out is no local of what calls it, and
-- of a function too: where a pcall has caught an error, the Lua of miniredis lets the two see different values.
local function next_run()
  local at = decision.next
  if at > #ARGV then
    return false
  end
  local size = ARGV[at + 3] + 0
  decision.keys = decision.keys + decision.count * decision.size
  decision.op, decision.detail, decision.at, decision.size = ARGV[at], ARGV[at + 1] == '1', ARGV[at + 2], size
  at = at + 4
  for i = 1, size do
    local limit = limits[ARGV[at] + 0]
    limit.cost = ARGV[at + 1] + 0
    decision.limits[i] = limit
    at = at + 2
    if decision.op == BACK then
      limit.note, at = ARGV[at] + 0, at + 1
    end
  end
  local count, named = ARGV[at] + 0, ARGV[at + 1] == '1'
  decision.count, decision.bases = count, named and at + 2
  decision.next = at + 2 + (named and count or 0)
  return true
end

-- others returns those functions of an algorithm that few calls need.
local function others(limit)
  local algorithm = limit.algorithm
  algorithm.others = algorithm.others or algorithm.make_others()
  return algorithm.others
end

local function probe()
  local limits, allowed = decision.limits, true
  for i = 1, decision.size do
    local limit = limits[i]
    if not limit.algorithm.probe(limit) then
      allowed = false
    end
  end
  return allowed
end

local function describe()
  for i = 1, decision.size do
    local limit = decision.limits[i]
    others(limit).describe(limit)
  end
end

-- reset makes the keys absent, unless one is another program's, which an algorithm finds out that looks at it.
local function reset()
  probe()
  describe()
  for i = 1, decision.size do
    redis.call('PEXPIRE', decision.limits[i].key, 0)
  end
end

local function close()
  probe()
  for i = 1, decision.size do
    local limit = decision.limits[i]
    if limit.algorithm.close then
      limit.algorithm.close(limit, decision.at + 0)
    end
  end
end

local function grant()
  probe()
  for i = 1, decision.size do
    local limit = decision.limits[i]
    others(limit).grant(limit)
  end
end

-- refuse tells the doors that the call is denied.
local function refuse()
  for i = 2, decision.size do
    local limit = decision.limits[i]
    if limit.algorithm.refuse then
      limit.algorithm.refuse(limit, decision.limits[i - 1])
    end
  end
end

-- take charges one limit after the other, and says how many, if all allow it. It stops where the base is another admission's.
local function take(limits, size)
  if not probe() then
    refuse()
    return DENIED
  end
  for i = 1, size do
    local limit = limits[i]
    local charge = limit.algorithm.charge
    if charge and limit.cost > 0 and not charge(limit, decision.base) then
      return TAKEN
    end
    decision.charged = i
  end
  for i = 1, size do
    local limit = limits[i]
    if limit.cost > 0 then
      limit.algorithm.settle(limit)
    end
  end
  return DONE
end

local function give_back()
  for i = 1, decision.size do
    local limit = decision.limits[i]
    others(limit).discharge(limit, decision.base, decision.at)
  end
end

-- decide does what few decisions ask for.
local function decide()
  if decision.op == PEEK then
    probe()
    return DENIED
  elseif decision.op == RESET then
    reset()
  elseif decision.op == CLOSE then
    close()
  elseif decision.op == GRANT then
    grant()
  else
    give_back()
  end
  return DONE
end

local function revert()
  for i = 1, decision.charged do
    local limit = decision.limits[i]
    if limit.cost > 0 then
      others(limit).revert(limit, decision.base)
    end
  end
end

-- failure is the script's reply where it fails of why.
local function failure(why)
  return type(why) == 'table' and why or {err = why}
end

-- common is the failure that all decisions have until now, and the one that fails of why: false if they are not the same. Of a failure, its
-- first word says which one it is, unless it is one for many.
local function common(why)
  local kind = string.match(failure(why).err, '%u%u%u+')
  decision.kind = decision.kind or kind
  return kind == decision.kind and kind ~= 'ERR' and (decision.failure or failure(why))
end

-- answer appends what the decision came to, and leaves its rules as the next one is to find them.
local function answer(status)
  reply[#reply + 1] = status
  if status == DONE and decision.op == TAKE then
    for i = 1, decision.size do
      local limit = decision.limits[i]
      if limit.algorithm.notes then
        reply[#reply + 1] = limit.cost > 0 and limit.rules[1].note or 0
      end
    end
  end
  local told = status == DENIED or status == DONE and decision.detail
  for i = 1, decision.size do
    local rules = decision.limits[i].rules
    for j = 1, #rules do
      local rule = rules[j]
      if told then
        reply[#reply + 1] = rule.retry
        if decision.detail then
          reply[#reply + 1] = rule.remaining
          reply[#reply + 1] = rule.reset
        end
      end
      rule.retry = 0
    end
  end
end

-- prepare makes the algorithms of the limits that have none yet, and says whether all there is to say of a decision that is done is that.
local function prepare()
  local brief = decision.op == TAKE and not decision.detail
  for i = 1, decision.size do
    local limit = decision.limits[i]
    if not limit.algorithm then
      algorithms[limit.place] = algorithms[limit.place] or make(limit.place)
      limit.algorithm = algorithms[limit.place]
    end
    brief = brief and not limit.algorithm.notes
  end
  return brief
end

-- work makes the decisions of the run from the one numbered first to the last, and answers them. An error ends it, in the decision that has
-- the number then. What has been found at the key of the first, on one limit, is not read again.
local function work(first, last, found)
  local limits, size, brief, act = decision.limits, decision.size, prepare(), decision.op == TAKE and take or decide
  local bases, keys = decision.bases, decision.keys + first * size
  limits[1].found = found
  for i = first, last do
    decision.number, decision.charged = i, 0
    if bases then
      decision.base = ARGV[bases + i]
    end
    for j = 1, size do
      limits[j].key = KEYS[keys + j]
    end
    keys = keys + size
    local status = act(limits, size)
    if status == DONE and brief then
      reply[#reply + 1] = DONE
    else
      if status == TAKEN then
        pcall(revert)
      elseif decision.detail then
        describe()
      end
      answer(status)
    end
  end
  decision.charged = 0
end

-- fail answers that the decision which was being made has failed of why. It returns what the script replies where there is no other.
local function fail(why)
  pcall(revert)
  if #KEYS == decision.size then
    return failure(why)
  end
  if decision.failure ~= false then
    decision.failure = common(why)
  end
  answer(FAILED)
end

return {next_run = next_run, work = work, fail = fail}
