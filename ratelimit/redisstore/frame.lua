-- frame: one call carries the decisions of many callers, one after the other, each all or nothing on its own.
-- Before it in the script stands make, which makes the algorithm of a place. None of them knows of more than one limit.
--
-- KEYS  one for every limit of every decision, in order; those of one decision are distinct
-- ARGV  for every decision
--         op         0 take: charge every limit if each allows its cost; 1 give back what a take charged
--         detail     1 if remaining and reset are wanted, else 0
--         base       14 digits that name the admission, chosen by the caller; to give back, those of the take
--         at         to give back, when it was charged: µs as a take returned them; else 0
--         limits     their number, and for each
--           algorithm  its place in script.go: 0 sliding-log, 1 bucket, and so on
--           cost       units, 0 or more; 0 asks without charging
--           option     the number that the algorithm takes besides its rules, as its file says; 0 if none
--           rules      their number, and for each
--             count      units
--             window     µs
--
-- returns integers, for every decision
--         status     0 denied: nothing is charged
--                    1 allowed and charged, or given back
--                    2 another admission has this base: nothing is charged, choose another
--                    3 failed: nothing is charged; asked alone, the error is the script's
--         and, if charged, for decisions with a limit whose algorithm does not tell admissions apart by their base
--           at         µs of the server's clock, by which they are given back
--         and, if charged, for every limit whose algorithm delays calls
--           delay      µs until the call is to go on
--         and, if denied or with detail (and not of status 2 or 3), for every rule of every limit
--           retry      µs until the same cost passes, 0 if the rule allows it, -1 never
--           remaining  units that pass now, after this decision (with detail)
--           reset      µs until the rule has all of its count again (with detail)
--
-- Time is the server's, read once: everything in this call happens at one instant.

local DENIED, DONE, TAKEN, FAILED = 0, 1, 2, 3

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local algorithms = {} -- by place: those that this call needs, for making one costs as much as deciding
local at, keys = 1, 0 -- of the ARGV and KEYS, how far they are read
local reply = {}

local function read_limit()
  local place, rules = ARGV[at], {}
  local algorithm = algorithms[place] or make(place)
  algorithms[place], keys = algorithm, keys + 1
  local limit = {key = KEYS[keys], algorithm = algorithm, cost = ARGV[at + 1] + 0, option = ARGV[at + 2] + 0, rules = rules}
  local first = at + 4
  at = first + 2 * ARGV[at + 3]
  for i = first, at - 1, 2 do
    rules[#rules + 1] = {count = ARGV[i] + 0, window = ARGV[i + 1] + 0, tag = ARGV[i + 1], retry = 0}
  end
  return limit
end

-- read_decision returns the next decision, nil if there is none. It alone asks how far the ARGV are read: the Lua of
-- miniredis lets functions and the text around them see different values of a local once a pcall has caught an error.
local function read_decision()
  if at > #ARGV then
    return nil
  end
  local limits, count = {}, ARGV[at + 4] + 0
  local decision = {
    back = ARGV[at] == '1', detail = ARGV[at + 1] == '1', base = ARGV[at + 2], at = ARGV[at + 3] + 0, limits = limits, charged = 0,
    forgetful = false,
  }
  at = at + 5
  for i = 1, count do
    limits[i] = read_limit()
    decision.forgetful = decision.forgetful or limits[i].algorithm.forgetful
  end
  return decision
end

-- others returns those functions of an algorithm that few calls need.
local function others(algorithm)
  algorithm.others = algorithm.others or algorithm.make_others()
  return algorithm.others
end

local function probe(decision)
  local allowed = true
  for i = 1, #decision.limits do
    local limit = decision.limits[i]
    if not limit.algorithm.probe(limit, now) then
      allowed = false
    end
  end
  return allowed
end

-- try charges one limit after the other, and says how many. It stops where the base is another admission's.
local function try(decision)
  for i = 1, #decision.limits do
    local limit = decision.limits[i]
    if limit.cost > 0 then
      if not limit.algorithm.charge(limit, decision.base, now) then
        return TAKEN
      end
      decision.charged = i
    end
  end
  for i = 1, #decision.limits do
    local limit = decision.limits[i]
    if limit.cost > 0 then
      limit.algorithm.settle(limit, now)
    end
  end
  return DONE
end

-- charge charges every limit, or none: not if the base is another admission's, and not if a command fails, where it
-- returns why.
local function charge(decision)
  local ok, result = pcall(try, decision)
  if ok and result == DONE then
    return DONE
  end
  for i = 1, decision.charged do
    local limit = decision.limits[i]
    others(limit.algorithm).revert(limit, decision.base)
  end
  if ok then
    return TAKEN
  end
  return FAILED, result
end

local function decide(decision)
  local status, why = DENIED, nil
  if decision.back then
    for _, limit in ipairs(decision.limits) do
      others(limit.algorithm).discharge(limit, decision.base, decision.at, now)
    end
    status = DONE
  elseif probe(decision) then
    status, why = charge(decision)
  end
  if decision.detail and status < TAKEN then
    for _, limit in ipairs(decision.limits) do
      others(limit.algorithm).describe(limit, now)
    end
  end
  return status, why
end

local function answer(decision, status)
  reply[#reply + 1] = status
  if status == DONE and decision.forgetful and not decision.back then
    reply[#reply + 1] = now
    for _, limit in ipairs(decision.limits) do
      if limit.algorithm.delays then
        reply[#reply + 1] = limit.rules[1].delay or 0
      end
    end
  end
  if status ~= DENIED and not (status == DONE and decision.detail) then
    return
  end
  for _, limit in ipairs(decision.limits) do
    for _, rule in ipairs(limit.rules) do
      reply[#reply + 1] = rule.retry
      if decision.detail then
        reply[#reply + 1] = rule.remaining
        reply[#reply + 1] = rule.reset
      end
    end
  end
end

local decision = read_decision()
if at > #ARGV then
  local status, why = decide(decision)
  if status == FAILED then
    return type(why) == 'table' and why or {err = why}
  end
  answer(decision, status)
  return reply
end
while decision do
  local ok, status = pcall(decide, decision)
  answer(decision, ok and status or FAILED)
  decision = read_decision()
end
return reply
