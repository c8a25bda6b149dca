-- frame: one call carries the decisions of many callers, one after the other, each all or nothing on its own.
-- Before it in the script stands make, which makes the algorithm of a place. None of them knows of more than one limit.
--
-- KEYS  one for every limit of every decision, in order; those of one decision are distinct
-- ARGV  the limits that the decisions are on, each once: their number, and for each
--         algorithm  its place in script.go: 0 sliding-log, 1 bucket, and so on
--         option     the number that the algorithm takes besides its rules, as its file says; 0 if none
--         ahead      µs that what is charged counts as if it were charged later than now; 0 for now
--         rules      their number, and for each
--           count      units
--           window     µs
--       and for every run of decisions that are alike but for their keys
--         op         0 take: charge every limit if each allows its cost; 1 give back what a take charged; 2 reset: forget
--                    what the keys have counted, at costs of 0; 3 close the doors among the limits, at costs of 0; 4 peek:
--                    say what a take would, as if it were denied; 5 grant: take back what was charged last
--         detail     1 if remaining and reset are wanted, else 0
--         at         to give back, when it was charged: µs as the take returned them; 0 if that is not known. To close, for
--                    how long: µs, 0 to open
--         limits     their number, and for each
--           limit      its number among those above, from 1: another one for each limit of a decision
--           cost       units, 0 or more; 0 asks without charging
--           note       to give back only: that of the take, 0 if there is none
--         decisions  their number
--         named      1 if the admissions have names, else 0: no limit tells one from another
--         and, if named, for every decision
--           base       14 digits that name the admission, chosen by the caller; to give back, those of the take
--
-- returns integers
--         now        µs of the server's clock: what is charged by a take is given back by it
--       and for every decision
--         status     0 denied: nothing is charged
--                    1 allowed and charged, or given back, reset, closed or granted
--                    2 another admission has this base: nothing is charged, choose another
--                    3 failed: nothing is charged; asked alone, the error is the script's. Where all decisions fail of the same, as where
--                    the server refuses to write, it is the script's, too
--         and, if charged by a take, for every limit whose algorithm has notes
--           note       what its file says; 0 at a cost of 0
--         and, if denied or with detail (and not of status 2 or 3), for every rule of every limit
--           retry      µs until the same cost passes, 0 if the rule allows it, -1 never
--           remaining  units that pass now, after this decision (with detail)
--           reset      µs until the rule has all of its count again (with detail)
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
--   many(limit)                 returns the take of many decisions on the limit alone, at a cost of 1 or more: take(key) does what probe,
--                               charge and settle do, and returns whether the cost is allowed. revert may follow it. An algorithm
--                               need not have it
--   make_others()               makes the functions that few calls need
--     revert(limit, base)       takes back what charge and settle have done in this decision
--     discharge(limit, base, at)  not of a door
--     forgive(limit, before, at)  of a door: the limit before it in the decision has been given back what it charged at at, 0 if that is not known, by which each of
--                               its rules has gained that many units. A part of one is one, where a rule gains no more
--     grant(limit)              takes back the units of the cost that were charged last, as far as there are so many; not of a
--                               queue, nor of a door
--     describe(limit)           sets the remaining and reset of every rule, as the key now stands
--
-- probe is followed by any of the others, in this order, or by describe and discharge, and discharge by describe. probe and describe write nothing.

local DENIED, DONE, TAKEN, FAILED = 0, 1, 2, 3
local TAKE, BACK, RESET, CLOSE, PEEK, GRANT = '0', '1', '2', '3', '4', '5'

-- others returns those functions of an algorithm that few calls need.
local function others(limit)
  local algorithm = limit.algorithm
  algorithm.others = algorithm.others or algorithm.make_others()
  return algorithm.others
end

local decision = {limits = {}} -- the one that is being made
local reply = {now}

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

-- regain gives back what a limit before a door was charged, and finds what its rules gain by that.
local function regain(limit)
  limit.algorithm.probe(limit)
  others(limit).describe(limit)
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    rule.gained, rule.had = -rule.remaining, rule.reset
  end
  others(limit).discharge(limit, decision.base, decision.at)
  others(limit).describe(limit)
  for i = 1, #limit.rules do
    local rule = limit.rules[i]
    rule.gained = rule.gained + rule.remaining
    if rule.gained == 0 and rule.reset < rule.had then
      rule.gained = 1
    end
  end
end

local function give_back()
  for i = 1, decision.size do
    local limit, before = decision.limits[i], decision.limits[i - 1]
    if limit.algorithm.close then
      others(limit).forgive(limit, before, decision.at + 0)
    elseif i < decision.size and decision.limits[i + 1].algorithm.close then
      regain(limit)
    else
      others(limit).discharge(limit, decision.base, decision.at)
    end
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

-- read_limits returns the limits, and where the decisions begin in ARGV.
local function read_limits()
  local read, algorithms, at = {}, {}, 2
  for i = 1, ARGV[1] + 0 do
    local place, rules, longest = ARGV[at], {}, 0
    local algorithm = algorithms[place] or make(place)
    local limit = {algorithm = algorithm, option = ARGV[at + 1] + 0, ahead = ARGV[at + 2] + 0, rules = rules, window = 0, key = '', cost = 0}
    local first = at + 4
    at = first + 2 * ARGV[at + 3]
    for j = first, at - 1, 2 do
      local window = ARGV[j + 1] + 0
      if window > longest then
        longest = window
      end
      rules[#rules + 1] = {count = ARGV[j] + 0, window = window, tag = ARGV[j + 1], retry = 0}
    end
    limit.window, read[i], algorithms[place] = longest, limit, algorithm
  end
  return read, at
end

-- read_run makes ready for the decisions of the run at a place in ARGV, and returns the place of the next
-- run. What it finds out is no local of what calls it, and of a function too: where a pcall has caught an error, the Lua of
-- miniredis lets the two see different values.
local function read_run(limits, at)
  local size = ARGV[at + 3] + 0
  decision.op, decision.detail, decision.at, decision.size = ARGV[at], ARGV[at + 1] == '1', ARGV[at + 2], size
  decision.brief = decision.op == TAKE and not decision.detail -- there is no more to say of one that is done than that
  at = at + 4
  for i = 1, size do
    local limit = limits[ARGV[at] + 0]
    limit.cost = ARGV[at + 1] + 0
    decision.limits[i], decision.brief = limit, decision.brief and not limit.algorithm.notes
    at = at + 2
    if decision.op == BACK then
      limit.note, at = ARGV[at] + 0, at + 1
    end
  end
  decision.count, decision.bases = ARGV[at] + 0, nil
  if ARGV[at + 1] == '0' then
    return at + 2
  end
  decision.bases = at + 2
  return at + 2 + decision.count
end

-- takes is work on one limit by an algorithm that has a way of its own for many.
local function takes(first)
  local limit, all, keys, n = decision.limits[1], KEYS, decision.keys + 1, #reply
  local take = limit.algorithm.many(limit)
  decision.charged = 1
  for i = first, decision.count - 1 do
    decision.number = i
    if take(all[keys + i]) then
      n = n + 1
      reply[n] = DONE
    else
      answer(DENIED)
      n = #reply
    end
  end
  decision.number = decision.count
end

-- work makes the decisions of the run from the one numbered first, and answers them. An error ends it, in the decision that has
-- the number then.
local function work(first)
  local limits, size, brief, act = decision.limits, decision.size, decision.brief, decision.op == TAKE and take or decide
  local bases, keys = decision.bases, decision.keys + first * size
  for i = first, decision.count - 1 do
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
  decision.number = decision.count
end

local limits, at = read_limits()
local keys = 0
repeat
  at = read_run(limits, at)
  decision.keys = keys
  keys = keys + decision.count * decision.size
  local first, limit = 0, decision.limits[1]
  local work = decision.brief and decision.size == 1 and decision.count > 1 and limit.cost > 0 and limit.algorithm.many and takes or work
  repeat
    local ok, why = pcall(work, first)
    if decision.number > first then
      decision.failure = false
    end
    if not ok then
      pcall(revert)
      if #KEYS == decision.size then
        return failure(why)
      end
      if decision.failure ~= false then
        decision.failure = common(why)
      end
      answer(FAILED)
    end
    first = decision.number + 1
  until first >= decision.count
until at > #ARGV
return decision.failure or reply
