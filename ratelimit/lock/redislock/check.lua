-- check: what the server lets its user do. It reads and writes nothing.
--
-- KEYS  none: those in the commands may be others'
-- ARGV  commands, each with its arguments, with spaces between them
--
--       and last a nonce: see lock_acquire.lua
--
-- returns  the nonce, and the numbers of those that are not permitted, from 1 on. A server before Redis 7 does not say: none of them

local lacks = {table.remove(ARGV) + 0}
if redis.acl_check_cmd then
  for i, text in ipairs(ARGV) do
    local words = {}
    for word in string.gmatch(text, '%S+') do
      words[#words + 1] = word
    end
    local known, permitted = pcall(redis.acl_check_cmd, unpack(words))
    if known and not permitted then
      lacks[#lacks + 1] = i
    end
  end
end
return lacks
