-- frame: one call carries the decisions of many callers, one after the other, each all or nothing on its own.
-- The algorithms stand before it in the script, and none of them knows of more than one limit.
--
-- KEYS  one for every limit of every decision, in order; those of one decision are distinct
-- ARGV  for every decision
--         op         0 take: charge every limit if each allows its cost; 1 give back what a take charged
--         detail     1 if remaining and reset are wanted, else 0
--         base       14 digits that name the admission, chosen by the caller; to give back, those of the take
--         at         to give back, when it was charged: µs as a take returned them; else 0
--         limits     their number, and for each
--           algorithm  0 sliding-log, 1 bucket, and so on: the number at the end of its file
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

local args, keys = 0, 0

local function text()
  args = args + 1
  return ARGV[args]
end

local function number()
  return tonumber(text())
end

local function read_rule()
  local rule = {count = number(), span = text(), retry = 0}
  rule.window = tonumber(rule.span)
  return rule
end

local function algorithm(place)
  if not algorithms[place] then
    makers[place]()
  end
  return algorithms[place]
end

local function read_limit()
  keys = keys + 1
  local limit = {key = KEYS[keys], algorithm = algorithm(number()), cost = number(), option = number(), rules = {}}
  for i = 1, number() do
    limit.rules[i] = read_rule()
  end
  return limit
end

local function read_decision()
  local decision = {op = number(), detail = number() == 1, base = text(), at = number(), limits = {}}
  for i = 1, number() do
    decision.limits[i] = read_limit()
    if decision.limits[i].algorithm.forgetful then
      decision.forgetful = true
    end
  end
  return decision
end

local function probe(decision)
  local allowed = true
  for _, limit in ipairs(decision.limits) do
    if not limit.algorithm.probe(limit, now) then
      allowed = false
    end
  end
  return allowed
end

local function revert(decision, count)
  for i = 1, count do
    local limit = decision.limits[i]
    limit.algorithm.revert(limit, decision.base)
  end
end

-- charge charges every limit, or none: not if the base is another admission's, and not if a command fails, where it
-- returns why.
local function charge(decision)
  local charged = 0
  local ok, result = pcall(function()
    for i, limit in ipairs(decision.limits) do
      if limit.cost > 0 then
        if not limit.algorithm.charge(limit, decision.base, now) then
          return TAKEN
        end
        charged = i
      end
    end
    for _, limit in ipairs(decision.limits) do
      if limit.cost > 0 then
        limit.algorithm.settle(limit, now)
      end
    end
    return DONE
  end)
  if not ok or result == TAKEN then
    revert(decision, charged)
  end
  if ok then
    return result
  end
  return FAILED, result
end

local function take(decision)
  if not probe(decision) then
    return DENIED
  end
  return charge(decision)
end

local function give_back(decision)
  for _, limit in ipairs(decision.limits) do
    limit.algorithm.discharge(limit, decision.base, decision.at, now)
  end
  return DONE
end

local function decide(decision)
  local status, why
  if decision.op == 1 then
    status = give_back(decision)
  else
    status, why = take(decision)
  end
  if decision.detail and status < TAKEN then
    for _, limit in ipairs(decision.limits) do
      limit.algorithm.describe(limit, now)
    end
  end
  return status, why
end

local reply = {}

local function answer_delays(decision)
  for _, limit in ipairs(decision.limits) do
    if limit.algorithm.delays then
      reply[#reply + 1] = limit.rules[1].delay or 0
    end
  end
end

local function answer(decision, status)
  reply[#reply + 1] = status
  if status == DONE and decision.op == 0 and decision.forgetful then
    reply[#reply + 1] = now
  end
  if status == DONE and decision.op == 0 then
    answer_delays(decision)
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

local decisions = {}
while args < #ARGV do
  decisions[#decisions + 1] = read_decision()
end
if #decisions == 1 then
  local status, why = decide(decisions[1])
  if status == FAILED then
    return type(why) == 'table' and why or {err = why}
  end
  answer(decisions[1], status)
  return reply
end
for _, decision in ipairs(decisions) do
  local ok, status = pcall(decide, decision)
  if not ok then
    status = FAILED
  end
  answer(decision, status)
end
return reply
