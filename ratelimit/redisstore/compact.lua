-- compact: what the two files have in common that know a compact log's string: compact_log.lua, which says what it is, and compact_run.lua.

local PAGE = 148                -- bytes of a string from which on it is read in parts: a head and 20 records
local SLACK_AFTER_WINDOW = 1000 -- ms that a key outlives its newest unit's last window
local LONGEST = 31622400000000  -- µs, of all windows
local RECORD, ZEROS = 6, '\0\0\0\0\0\0'
local SHORT_HEAD = 10

-- pack returns the last 48 bits of an integer.
local function pack(n)
  local low = n % 16777216
  local high = (n - low) / 16777216 % 16777216
  local c, f = high % 256, low % 256
  high, low = (high - c) / 256, (low - f) / 256
  local b, e = high % 256, low % 256
  return string.char((high - b) / 256, b, c, (low - e) / 256, e, f)
end

-- number returns the integer of 48 bits.
local function number(a, b, c, d, e, f)
  return ((a * 256 + b) * 256 + c) * 16777216 + (d * 256 + e) * 256 + f
end

-- record returns the record of a unit of a time.
local function record(time)
  local text = pack(time)
  return text ~= ZEROS and text or pack(time + 1)
end

-- horizon returns when the expiry of a key is near whose units count for some µs: before soon. Then it is to be there for lasting ms, in digits, until ends.
local function horizon(counts)
  local ms = math.ceil(counts / 1000) + 1
  return now + ms * 1000, integer(ms - 1 + SLACK_AFTER_WINDOW), now + (ms - 1 + SLACK_AFTER_WINDOW) * 1000
end
