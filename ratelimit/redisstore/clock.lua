-- clock: the server's, read once. Everything in this call happens at one instant, now: µs since 1970-01-01 00:00 UTC.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The frame's reply begins with the nonce. No other part of the script sees it.
local nonce = table.remove(ARGV) + 0
