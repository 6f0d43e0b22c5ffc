-- CL.RESERVE, CL.PEEK, CL.CHARGE and CL.REFUND as a script, the first of two parts: calls of
-- one funnel whose times are all below 52 days. Those are nearly all, and cost 0.6 of what
-- they would in funnels_exact.lua, which follows, says what the script takes and replies,
-- and decides all others, errors included.
--
-- A number of Lua is a double, exact up to 2^53: enough for the nanoseconds of 104
-- days. So a span is one number, and an instant two, its seconds and its nanoseconds.

local function answer()
    local command, capacity, count, period, quantity, max_wait = unpack(ARGV)
    local find, match, sub, format = string.find, string.match, string.sub, string.format
    local floor, ceil = math.floor, math.ceil
    local BILLION = 1000000000
    local LONGEST_SPAN = 4500000000000000 -- the sum of two is below 2^53

    -- Only integers, and so few digits that a product is exact or above the longest span.
    if #KEYS ~= 1 or #ARGV > 6 or not quantity
        or #capacity > 9 or #count > 9 or #period > 6 or #quantity > 9
        or not find(capacity, '^[1-9]%d*$') or not find(count, '^[1-9]%d*$') or not find(period, '^[1-9]%d*$')
        or not (find(quantity, '^[1-9]%d*$') or quantity == '0') then
        return
    end
    local now
    if #command > 7 then command, now = match(command, '^(%l+),now=([1-9]%d*)$') end
    local decides = command == 'reserve' or command == 'peek'
    if not decides and command ~= 'charge' and command ~= 'refund' then return end
    local longest_wait = 0
    if max_wait and (max_wait ~= '0' or command ~= 'reserve') then
        local whole, fraction = match(max_wait, '^(%d+)%.(%d+)$')
        whole, fraction = whole or max_wait, fraction or ''
        if command ~= 'reserve' or #whole > 6 or #fraction > 9
            or not (find(whole, '^[1-9]%d*$') or whole == '0') then
            return
        end
        longest_wait = whole * BILLION + sub(fraction .. '000000000', 1, 9)
    end
    local interval = floor(period * BILLION / count)
    local tolerance, increment = interval * capacity, interval * quantity
    if interval == 0 or tolerance >= LONGEST_SPAN or increment >= LONGEST_SPAN then return end

    local now_seconds, now_nanoseconds
    if now then
        now_seconds, now_nanoseconds = tonumber(sub(now, 1, -10)) or 0, tonumber(sub(now, -9))
    else
        local time = redis.call('TIME')
        now_seconds, now_nanoseconds = tonumber(time[1]), time[2] * 1000
    end
    -- Of instants, those from 2001 to 2255 have 19 digits and begin with 1 to 8.
    if now_seconds < 1000000000 or now_seconds >= 9000000000 then return end

    -- The level is how long the funnel takes to drain.
    local level = 0
    local tat = redis.pcall('GET', KEYS[1])
    if tat then
        if type(tat) ~= 'string' or #tat ~= 19 or not find(tat, '^[1-8]%d*$') then return end
        level = (sub(tat, 1, 10) - now_seconds) * BILLION + (sub(tat, 11) - now_nanoseconds)
        if level >= LONGEST_SPAN then return end
        if level < 0 then level = 0 end
    end

    local function decimal(span)
        local nanoseconds = span % BILLION
        if nanoseconds == 0 then return format('%d', span / BILLION) end
        return match(format('%d.%09d', (span - nanoseconds) / BILLION, nanoseconds), '.*[1-9]')
    end

    local filled = level + increment
    if command == 'refund' then
        filled = level > increment and level - increment or 0
    end
    local limited, wait = 0, '0'
    local over = filled - tolerance
    if over > 0 then
        if not decides then
            limited, wait = 1, decimal(over)
        elseif increment > tolerance then
            limited, wait = 1, '-1'
        elseif over > longest_wait then
            limited, wait = 1, decimal(over - longest_wait)
        else
            wait = decimal(over)
        end
    end
    if filled ~= level and command ~= 'peek' and (limited == 0 or not decides) then
        level = filled
        if level == 0 then
            redis.call('DEL', KEYS[1])
        else
            local nanoseconds = now_nanoseconds + level
            local seconds = now_seconds + floor(nanoseconds / BILLION)
            nanoseconds = nanoseconds % BILLION
            redis.call('SET', KEYS[1], format('%d%09d', seconds, nanoseconds),
                'PXAT', seconds * 1000 + ceil(nanoseconds / 1000000))
        end
    end
    local remaining = level < tolerance and floor((tolerance - level) / interval) or 0
    return {limited, wait, {{limited, tonumber(capacity), remaining, wait, decimal(level)}}}
end

local reply = answer()
if reply then return reply end

