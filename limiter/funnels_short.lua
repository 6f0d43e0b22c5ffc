-- CL.RESERVE, CL.TAKE, CL.PEEK, CL.CHARGE and CL.REFUND as a script, for servers that load
-- no modules: the same keys, values, replies and errors, to the nanosecond. Both can work on
-- one funnel.
--
--   EVAL script n key ... command capacity count period quantity ... [max_wait | tat]
--
-- The keys are 1 to 64 funnels. The command is reserve, take, peek, charge or refund, in lower
-- case; then come four words for each key, in the order of the keys. The max_wait is for
-- reserve, and tat for refund. Integers of more than 15 digits are strings in the reply.
--
-- funnels.lua is this part and funnels_exact.lua, joined by go generate.
--
-- This part decides calls of one funnel in whole seconds, whose times are all below 52 days.
-- Those are nearly all, and cost 0.6 of what they would in the next part, which decides the
-- others. A double is exact up to 2^53, the nanoseconds of 104 days. So a span is one number,
-- and an instant two: its seconds and its nanoseconds.

local function answer()
    local command, capacity, count, period, quantity, last_word = unpack(ARGV)
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
    local reserves, takes, refunds = command == 'reserve', command == 'take', command == 'refund'
    local decides = reserves or command == 'peek'
    if not decides and not takes and not refunds and command ~= 'charge' then return end
    local longest_wait = 0
    if last_word and refunds then
        if #last_word ~= 19 or not find(last_word, '^[1-8]%d*$') then return end
    elseif last_word then
        if not reserves or #last_word > 6 or not (find(last_word, '^[1-9]%d*$') or last_word == '0') then return end
        longest_wait = last_word * BILLION
    end
    local interval = floor(period * BILLION / count)
    local tolerance, increment = interval * capacity, interval * quantity
    if interval == 0 or tolerance >= LONGEST_SPAN or increment >= LONGEST_SPAN then return end

    local time = redis.call('TIME')
    local now_seconds, now_nanoseconds = tonumber(time[1]), time[2] * 1000
    -- Of instants, those from 2001 to 2255 have 19 digits and begin with 1 to 8.
    if now_seconds < 1000000000 or now_seconds >= 9000000000 then return end

    local function until_instant(digits)
        return math.max(0, (sub(digits, 1, 10) - now_seconds) * BILLION + (sub(digits, 11) - now_nanoseconds))
    end

    -- The level is how long the funnel takes to drain.
    local level = 0
    local tat = redis.pcall('GET', KEYS[1])
    if tat then
        if type(tat) ~= 'string' or #tat ~= 19 or not find(tat, '^[1-8]%d*$') then return end
        level = until_instant(tat)
        if level >= LONGEST_SPAN then return end
    end

    local function decimal(span)
        local nanoseconds = span % BILLION
        if nanoseconds == 0 then return format('%d', span / BILLION) end
        return match(format('%d.%09d', (span - nanoseconds) / BILLION, nanoseconds), '.*[1-9]')
    end

    local taken = tonumber(quantity)
    if takes then
        taken = math.max(0, math.min(floor((tolerance - level) / interval), taken))
        increment = interval * taken
    elseif refunds and last_word then
        increment = math.min(increment, until_instant(last_word))
    end
    local filled = refunds and math.max(0, level - increment) or level + increment
    local limited, wait = 0, '0'
    local over = filled - tolerance
    if takes then
        if taken < tonumber(quantity) then limited, wait = 1, decimal(over + interval) end
    elseif over > 0 then
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
    local receipt = '0'
    if filled ~= level and command ~= 'peek' and (limited == 0 or not decides) then
        level = filled
        if level == 0 then
            redis.call('DEL', KEYS[1])
        else
            local nanoseconds = now_nanoseconds + level
            local seconds = now_seconds + floor(nanoseconds / BILLION)
            nanoseconds = nanoseconds % BILLION
            tat = format('%d%09d', seconds, nanoseconds)
            redis.call('SET', KEYS[1], tat, 'PXAT', seconds * 1000 + ceil(nanoseconds / 1000000))
            if not refunds then receipt = tat end
        end
    end
    local remaining = level < tolerance and floor((tolerance - level) / interval) or 0
    return {limited, wait, {{limited, tonumber(capacity), remaining, wait, decimal(level), receipt}}, takes and taken or nil}
end

local reply = answer()
if reply then return reply end

