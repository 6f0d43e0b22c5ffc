-- Takes tokens of one funnel for package limiter. Package limiter has checked the limit, and computes the reply, so
-- this script costs half as much as funnels.lua.
--
--   EVAL script 1 key ceiling increment [most]
--
-- Spans are nanoseconds. The level is the time in which the funnel drains. The script takes one increment, or with most
-- as many as fit up to most, if the level then is at most the ceiling. If it took nothing, it replies the level.
-- Otherwise it replies the new TAT (19 digits), the seconds of the clock (10 digits), the microseconds of the clock,
-- and, with most, a space and how many increments it took. It replies nothing if a double of Lua is not exact, or if
-- the key holds something else: the complete script decides these calls.
local time, tat = redis.call('TIME'), redis.pcall('GET', KEYS[1])
local seconds, nanoseconds, level = time[1] + 0, time[2] * 1000, 0
-- Instants from 2001 to 2255 have 19 digits, of which the first is 1 to 8.
if seconds < 1000000000 or seconds >= 9000000000 then return end
if tat then
    if type(tat) ~= 'string' or #tat ~= 19 or not tat:find('^[1-8]%d*$') then return end
    level = (tat:sub(1, 10) - seconds) * 1000000000 + (tat:sub(11) - nanoseconds)
    if level >= 9000000000000000 then return end -- a double is exact up to 2^53
    if level < 0 then level = 0 end
end
local room, increment, most = ARGV[1] - level, ARGV[2] + 0, ARGV[3]
if room < increment then return level end
if most then
    most = math.min(math.floor(room / increment), most)
    increment, most = increment * most, ' ' .. most
end
nanoseconds = nanoseconds + level + increment
local rest = nanoseconds % 1000000000
seconds = seconds + (nanoseconds - rest) / 1000000000
tat = string.format('%d%09d', seconds, rest)
rest = rest + 999999 -- the expiry is rounded up
redis.call('SET', KEYS[1], tat, 'PXAT', string.format('%d', seconds * 1000 + (rest - rest % 1000000) / 1000000))
return tat .. time[1] .. time[2] .. (most or '')
