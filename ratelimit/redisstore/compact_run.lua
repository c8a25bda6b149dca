-- compact-run: the short way of a run of decisions that take from one compact log each and want no detail. It makes those that find no log, or one
-- that is whole, has no more units than the smallest count lets it have once the cost is charged, and ends with a time until now: of such a
-- log nothing is dropped. The others are made as any decision.

-- short_run returns where the run begins in ARGV, and how many decisions it has, if there is no other run and this one has the short way.
local function short_run()
  local argv = ARGV
  local at = 6 + 2 * argv[5]
  if argv[1] == '1' and argv[2] == '4' and #argv == at + 7 and argv[at] == '0' and argv[at + 1] == '0' and argv[at + 3] == '1' and argv[at + 5] ~= '0' then
    return at, argv[at + 6] + 0
  end
end

-- work_short makes the decisions of the run at a place in ARGV from the one numbered first, those of them that ways() has to make included.
local function work_short(at, first, decision, reply, ways)
  local NEAR = 70368744177664 -- µs: times that are no further apart are told apart by 48 bits, whichever is the later
  local ALL48 = 281474976710656
  local argv, keys = ARGV, KEYS
  local cost, ahead, window = argv[at + 5] + 0, argv[4] + 0, 0
  local most = PAGE - 1 - cost * RECORD -- bytes that the string may have
  for i = 6, at - 1, 2 do
    local room, length = SHORT_HEAD + (argv[i] - cost) * RECORD, argv[i + 1] + 0
    if room < most then
      most = room
    end
    if length > window then
      window = length
    end
  end
  local soon, lasting, ends = horizon(window + ahead)
  local charged, added = now + ahead, record(now + ahead)
  local head = '\3log' .. pack(ends)
  if most < SHORT_HEAD then
    most = -1 -- none is
  elseif cost > 1 then
    added = string.rep(added, cost)
  end
  local soon48, charged48 = soon % ALL48, charged % ALL48
  local byte, call, n = string.byte, redis.call, #reply

  for i = first, decision.count - 1 do
    decision.number = i
    local key = keys[i + 1]
    local text = call('GETRANGE', key, '0', '147')
    local size, begins, appends = #text, false, false
    if size == 0 and most > 0 then
      begins = head
    elseif size > SHORT_HEAD and size <= most and (size - SHORT_HEAD) % RECORD == 0 then
      local kind, l, o, g, a, b, c, d, e, f = byte(text, 1, 10)
      if kind == 3 and l == 108 and o == 111 and g == 103 then
        local left, since = number(a, b, c, d, e, f) - soon48, charged48 - number(byte(text, size - 5, size))
        if since >= 0 and since < NEAR then
          if left >= 0 then
            appends = left < NEAR
          elseif left > -NEAR then
            local age = charged48 - number(byte(text, 11, 16))
            if age >= since and age < LONGEST then
              begins = head .. string.sub(text, 11)
            end
          end
        end
      end
    end
    if appends or begins then
      if appends then
        call('APPEND', key, added)
      else
        call('SET', key, begins .. added, 'PX', lasting)
      end
      n = n + 1
      reply[n] = 1
    else
      ways().work(i, i, text)
      n = #reply
    end
  end
end
