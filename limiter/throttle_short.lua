-- CL.THROTTLE as a script, the first of two parts: calls whose times are all below 52
-- days. Those are nearly all, and cost little more than half of what they would in
-- throttle_exact.lua, which follows and decides the others, errors included.
--
-- A number of Lua is a double, exact up to 2^53: enough for the nanoseconds of 104
-- days. So a span is one number, and an instant two, its seconds and its nanoseconds.

local function throttle()
    local capacity, count, period, quantity, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or '1', ARGV[5]
    local find, sub, floor, ceil, format = string.find, string.sub, math.floor, math.ceil, string.format
    local LONGEST_SPAN = 4500000000000000 -- the sum of two is below 2^53

    -- Only integers, and so few digits that a product is exact or above the longest span.
    if #KEYS ~= 1 or #ARGV > 5 or not period
        or #capacity > 9 or #count > 9 or #period > 6 or #quantity > 9
        or not find(capacity, '^[1-9]%d*$') or not find(count, '^[1-9]%d*$') or not find(period, '^[1-9]%d*$')
        or not (find(quantity, '^[1-9]%d*$') or quantity == '0') then
        return
    end
    local interval = floor(period * 1000000000 / count)
    local tolerance, increment = interval * capacity, interval * quantity
    if interval == 0 or tolerance >= LONGEST_SPAN or increment >= LONGEST_SPAN then return end

    local now_seconds, now_nanoseconds
    if now then
        now_seconds, now_nanoseconds = tonumber(sub(now, 1, -10)) or 0, tonumber(sub(now, -9))
    else
        local time = redis.call('TIME')
        now_seconds, now_nanoseconds = tonumber(time[1]), time[2] * 1000
    end
    if now_seconds >= 9000000000 then return end -- 63 bits end soon after

    -- The level is how long the funnel takes to drain.
    local level = 0
    local tat = redis.pcall('GET', KEYS[1])
    if tat then
        -- Of instants, those from 2001 to 2255 have 19 digits and begin with 1 to 8.
        if type(tat) ~= 'string' or #tat ~= 19 or not find(tat, '^[1-8]%d*$') then return end
        level = (sub(tat, 1, 10) - now_seconds) * 1000000000 + (sub(tat, 11) - now_nanoseconds)
        if level >= LONGEST_SPAN then return end
        if level < 0 then level = 0 end
    end

    local limited, retry_after = 0, -1
    if level + increment > tolerance then
        limited = 1
        if increment <= tolerance then retry_after = level + increment - tolerance end
    elseif increment > 0 then
        level = level + increment
        local nanoseconds = now_nanoseconds + level
        local seconds = now_seconds + floor(nanoseconds / 1000000000)
        nanoseconds = nanoseconds % 1000000000
        redis.call('SET', KEYS[1], format('%d%09d', seconds, nanoseconds),
            'PXAT', format('%d', seconds * 1000 + ceil(nanoseconds / 1000000)))
    end
    local remaining = level < tolerance and floor((tolerance - level) / interval) or 0
    return {limited, tonumber(capacity), remaining,
        retry_after < 0 and -1 or ceil(retry_after / 1000000000), ceil(level / 1000000000),
        format('%d', retry_after), format('%d', level)}
end

local reply = throttle()
if reply then return reply end

