-- integer returns the digits of n, all of them. %d takes no more than 31 bits on some servers.
local function integer(n)
  if n < 1000000000 then
    return string.format('%d', n)
  end
  local low = n % 1000000000
  return string.format('%d%09d', (n - low) / 1000000000, low)
end
