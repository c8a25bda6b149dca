-- frame: one call carries the decisions of many callers, one after the other, each all or nothing on its own.
-- Before it in the script stands make_decision, which makes what decides. That costs more than many decisions do, so that it is made once one needs it;
-- those of most calls have a short way, which compact_run.lua is.
--
-- KEYS  one for every limit of every decision, in order; those of one decision are distinct
-- ARGV  the limits that the decisions are on, each once: their number, and for each
--         algorithm  its place in script.go: 0 sliding-log, 1 bucket, and so on
--         option     the number that the algorithm takes besides its rules, as its file says; 0 if none
--         ahead      µs that what is charged counts as if it were charged later than now; 0 for now, less for earlier
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
--       and last
--         nonce      a number of up to 53 bits
--
-- returns integers
--         nonce      that of ARGV, by which the caller knows that the reply is its own
--         now        µs of the server's clock: what is charged by a take is given back by it
--       and for every decision
--         status     less than 0: as many decisions, of which this is the first, are allowed and charged, and there is no more to say of them
--                    0 denied: nothing is charged
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

local decision = {keys = 0, count = 0, size = 0, number = 0, charged = 0, answered = 0} -- the one that is being made, and its run
local reply = {nonce, now}

-- ways returns the functions of decision.lua, once a decision needs them.
local function ways()
  if not decision.ways then
    decision.ways = make_decision(decision, reply)
    if decision.short then
      decision.ways.next_run()
    end
  end
  return decision.ways
end

-- work makes the decisions of the run from the one numbered first, and answers them. An error ends it, in the decision that has
-- the number then.
local function work(first)
  if decision.short then
    work_short(decision.short, first, decision, reply, ways)
  else
    ways().work(first, decision.count - 1)
  end
  decision.number = decision.count
end

-- run makes the decisions of a run, and goes on behind one that fails.
local function run()
  local first = 0
  repeat
    local ok, why = pcall(work, first)
    if decision.number > first then
      decision.failure = false
    end
    if decision.short and decision.number > decision.answered then
      reply[#reply + 1] = decision.answered - decision.number
    end
    if not ok then
      decision.refused = ways().fail(why)
    end
    first = decision.number + 1
  until first >= decision.count or decision.refused
end

decision.short, decision.count = short_run()
if decision.short then
  run()
else
  decision.count = 0
  while not decision.refused and ways().next_run() do
    run()
  end
end
return decision.refused or decision.failure or reply
