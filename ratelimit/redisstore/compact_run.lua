-- compact-run: the short way of a run of decisions that take from one compact log each and want no detail. It makes those that find no log, or one
-- that is whole, ends with a time until now and stays whole. The others are made as any decision.

-- short_run returns where the run begins in ARGV, and how many decisions it has, if there is no other run and this one has the short way.
local function short_run()
  local argv = ARGV
  local at = 6 + 2 * argv[5]
  if argv[1] == '1' and argv[2] == '4' and #argv == at + 7 and argv[at] == '0' and argv[at + 1] == '0' and argv[at + 3] == '1' and argv[at + 5] ~= '0' then
    return at, argv[at + 6] + 0
  end
end

-- work_short makes the decisions of the run at a place in ARGV from the one numbered first, those of them that ways() has to make included. It answers
-- none of those that were allowed since decision.answered.
local function work_short(at, first, decision, reply, ways)
  local NEAR = 70368744177664 -- µs: times that are no further apart are told apart by 48 bits, whichever is the later
  local ALL48 = 281474976710656
  local argv, keys = ARGV, KEYS
  local cost, ahead, span = argv[at + 5] + 0, argv[4] + 0, 0
  local room = PAGE - cost * RECORD -- bytes from which on a string has none for the cost
  local few = room                  -- bytes from which on it has none, or a rule has to be asked
  for i = 6, at - 1, 2 do
    local most, length = SHORT_HEAD + (argv[i] - cost + 1) * RECORD, argv[i + 1] + ahead
    if most < few then
      few = most
    end
    if length > span then
      span = length
    end
  end
  local soon, lasting, ends = horizon(span)
  local charged, added = now + ahead, record(now + ahead)
  if few <= SHORT_HEAD then
    decision.answered = decision.count
    return ways().work(first, decision.count - 1)
  end
  if cost > 1 then
    added = string.rep(added, cost)
  end
  local head = '\3log' .. pack(ends)
  local fresh, retries = head .. added, {}
  local soon48, charged48 = soon % ALL48, charged % ALL48
  local byte, call, n, answered = string.byte, redis.call, #reply, first
  decision.answered = first

  for i = first, decision.count - 1 do
    decision.number = i
    local key = keys[i + 1]
    local text = call('GETRANGE', key, '0', '147')
    local size, made, denied = #text, false, false
    if size == 0 then
      call('SET', key, fresh, 'PX', lasting)
      made = true
    elseif size > SHORT_HEAD and size < PAGE and (size - SHORT_HEAD) % RECORD == 0 then
      local kind, l, o, g, a, b, c, d, e, f = byte(text, 1, 10)
      if kind == 3 and l == 108 and o == 111 and g == 103 then
        local left = ((a * 256 + b) * 256 + c) * 16777216 + (d * 256 + e) * 256 + f - soon48
        a, b, c, d, e, f = byte(text, size - 5, size)
        local since = charged48 - ((a * 256 + b) * 256 + c) * 16777216 - (d * 256 + e) * 256 - f
        if since >= 0 and since < NEAR and left > -NEAR and left < NEAR then
          if size < few and left >= 0 then
            call('APPEND', key, added)
            made = true
          else
            local age = charged48 - number(byte(text, 11, 16))
            if age >= since and age < LONGEST then
              local full, from = size >= few, SHORT_HEAD + 1
              for j = 6, full and at - 1 or 0, 2 do
                local place, retry = size + 1 - (argv[j] - cost + 1) * RECORD, 0
                if place > SHORT_HEAD then
                  retry = argv[j + 1] + ahead - charged48 + number(byte(text, place, place + 5))
                  if retry > 0 then
                    denied = true
                  else
                    retry = 0
                  end
                else
                  full = false
                end
                retries[j / 2 - 2] = retry
              end
              if not denied and size < room then
                while full and from < size and charged48 - number(byte(text, from, from + 5)) >= span do
                  from = from + RECORD
                end
                if left < 0 then
                  call('SET', key, head .. string.sub(text, from) .. added, 'PX', lasting)
                elseif full then
                  call('SET', key, string.sub(text, 1, SHORT_HEAD) .. string.sub(text, from) .. added, 'KEEPTTL')
                else
                  call('APPEND', key, added)
                end
                made = true
              end
            end
          end
        end
      end
    end
    if not made then
      if i > answered then
        n = n + 1
        reply[n] = answered - i
      end
      decision.answered = i
      if denied then
        n = n + 1
        reply[n] = 0
        for j = 1, #retries do
          n = n + 1
          reply[n] = retries[j]
        end
      else
        ways().work(i, i, text)
        n = #reply
      end
      answered = i + 1
      decision.answered = answered
    end
  end
end
