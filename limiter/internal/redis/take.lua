-- Takes tokens of one funnel for package limiter, which has read and checked the limit, and
-- computes the reply: little is left to do, at half of what funnels.lua costs.
--
--   EVAL script 1 key ceiling increment [most]
--
-- Spans are nanoseconds. The script takes the increment, or up to most of them, as long as
-- the level, which is how long the funnel takes to drain, stays within the ceiling. It
-- replies the level if it took nothing; otherwise the new TAT, of 19 digits, then the
-- seconds of the clock, of 10, then its microseconds, and, with most, how many it took. It
-- replies nothing where a double of Lua is not exact, or the key holds something else: the
-- complete script decides these.
local time, tat = redis.call('TIME'), redis.pcall('GET', KEYS[1])
local seconds, nanoseconds, level = time[1] + 0, time[2] * 1000, 0
-- Of instants, those from 2001 to 2255 have 19 digits and begin with 1 to 8.
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
