-- Whether keys that were set one by one are all there, where one call asks for them: they are not where something in between hands connections, or keys, to several servers.
--
-- KEYS     the limiter's own, which nobody else has
-- ARGV     ms for which the first of them is set; 0 to set none
--          1 to have none of them from then on, else 0
-- returns  how many of the keys are there

if ARGV[1] ~= '0' then
  redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
end
local there = 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) then
    there = there + 1
  end
  if ARGV[2] == '1' then
    redis.call('PEXPIRE', KEYS[i], 0)
  end
end
return there
