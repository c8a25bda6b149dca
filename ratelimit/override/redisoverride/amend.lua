-- amend: changes some fields of a hash of overrides, all of them or none, unless the hash is another than it was read.
--
-- KEYS  the hash
-- ARGV  the number of fields that were read, and each with its text
--       the number of fields to set, and each with its text
--       the fields to remove
--
-- returns 1 if that is done, 0 if it is another than was read

local key = KEYS[1]
local found = redis.call('HGETALL', key)
local read, set = ARGV[1] + 0, ARGV[2 * ARGV[1] + 2] + 0
if #found ~= 2 * read then
  return 0
end
local texts = {}
for i = 1, #found, 2 do
  texts[found[i]] = found[i + 1]
end
for i = 2, 2 * read, 2 do
  if texts[ARGV[i]] ~= ARGV[i + 1] then
    return 0
  end
end
local first = 2 * read + 3
for i = first, first + 2 * set - 1, 2 do
  redis.call('HSET', key, ARGV[i], ARGV[i + 1])
end
for i = first + 2 * set, #ARGV do
  redis.call('HDEL', key, ARGV[i])
end
return 1
