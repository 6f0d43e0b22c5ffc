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

-- The second part of funnels.lua, which begins with funnels_short.lua.
--
-- This part can decide every call. Times take 63 bits here, and a double of Lua has 53. So
-- each time is two numbers: the seconds, and the nanoseconds. Other integers are kept alike:
-- how many billions, and the rest.

local BILLION = 1000000000
local find, match, sub, format = string.find, string.match, string.sub, string.format

-- Leaves less than a billion in the lower number, which may be negative.
local function carry(high, low)
    local rest = low % BILLION
    return high + (low - rest) / BILLION, rest
end

local function above(a_high, a_low, b_high, b_low)
    return a_high > b_high or (a_high == b_high and a_low > b_low)
end

local function fits_63_bits(high, low)
    return not above(high, low, 9223372036, 854775807)
end

-- The product. It is exact if it fits 63 bits; otherwise it does not fit them either.
local function multiply(a_high, a_low, b_high, b_low)
    -- The product of two numbers below a billion is not exact: take the second in parts.
    local lower = b_low % 100000
    local middle = a_low * ((b_low - lower) / 100000)
    local rest = middle % 10000
    return carry(a_high * b_high * BILLION + a_high * b_low + a_low * b_high + (middle - rest) / 10000,
        rest * 100000 + a_low * lower)
end

-- The quotient, rounded down.
local function divide(a_high, a_low, b_high, b_low)
    local divisor = b_high * BILLION + b_low
    if a_high < 9007199 then -- below 2^53
        return carry(0, math.floor((a_high * BILLION + a_low) / divisor))
    end
    -- The first guess is off by some thousands, the second too large by one at most. Both
    -- are rounded towards zero, or one number of a small quotient would be large.
    local high, low, rest_high, rest_low = 0, 0, a_high, a_low
    for _ = 1, 2 do
        local guess = (rest_high * BILLION + rest_low) / divisor
        local guess_high = math.modf(guess / BILLION)
        local guess_low = math.modf(guess - guess_high * BILLION)
        local product_high, product_low = multiply(b_high, b_low, guess_high, guess_low)
        high, low = carry(high + guess_high, low + guess_low)
        rest_high, rest_low = carry(rest_high - product_high, rest_low - product_low)
    end
    if rest_high < 0 then return carry(high, low - 1) end
    return high, low
end

-- An integer from 0 to 2^63-1, without sign and leading zeros. Returns nothing for other text.
local function parse_integer(text)
    if not find(text, '^[1-9]%d*$') and text ~= '0' then return end
    if #text <= 9 then return 0, tonumber(text) end
    local high, low = tonumber(sub(text, 1, -10)), tonumber(sub(text, -9))
    if fits_63_bits(high, low) then return high, low end
end

-- Seconds from 0 to 2^63-1 nanoseconds, with up to nine digits behind the point.
local function parse_seconds(text)
    local whole, fraction = match(text, '^(%d+)%.(%d+)$')
    local billions, rest = parse_integer(whole or text)
    if not rest or #(fraction or '') > 9 then return end
    local seconds = billions * BILLION + rest
    local nanoseconds = fraction and tonumber(sub(fraction .. '00000000', 1, 9)) or 0
    if fits_63_bits(seconds, nanoseconds) then return seconds, nanoseconds end
end

local function digits(high, low)
    if high == 0 then return format('%d', low) end
    return format('%d%09d', high, low)
end

-- As a double, an integer of more digits would be rounded.
local function integer(high, low)
    return high < 1000000 and high * BILLION + low or digits(high, low)
end

local function decimal(seconds, nanoseconds)
    if nanoseconds == 0 then return format('%d', seconds) end
    return match(format('%d.%09d', seconds, nanoseconds), '.*[1-9]')
end

-- The number is that of the funnel, where an error names one.
local function fail(reason, number, value)
    if number and #KEYS > 1 then reason = 'funnel ' .. number .. ': ' .. reason end
    if value and value ~= '' then
        reason = reason .. ", not '" .. string.gsub(sub(value, 1, 40), '[^ -~]', '?') .. "'"
        if #value > 40 then reason = reason .. ' and more' end
    end
    return {err = 'ERR ' .. reason}
end

local function fail_together(reason, number)
    local at = 4 * number - 2
    return fail(reason .. ': got capacity ' .. ARGV[at] .. ', count ' .. ARGV[at + 1]
        .. ', period ' .. ARGV[at + 2] .. ', quantity ' .. ARGV[at + 3], number)
end

local function fail_quantity(reason, number)
    return fail_together('quantity and period are too large together for count: ' .. reason, number)
end

local command = ARGV[1] or ''

-- A funnel by its four words. Returns nothing, and an error, for other words.
local function parse_funnel(number)
    local at = 4 * number - 2
    local capacity, count, period, quantity = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local capacity_high, capacity_low = parse_integer(capacity)
    if capacity == '0' then
        return nil, fail("capacity must be an integer from 1 to 9223372036854775807, not '0': for clients of redis-cell,"
            .. " whose argument is one less than the limit, load the module with 'compat redis-cell'", number)
    elseif not capacity_low then
        return nil, fail('capacity must be an integer from 1 to 9223372036854775807', number, capacity)
    end
    local count_high, count_low = parse_integer(count)
    if not count_low or count == '0' then
        return nil, fail('count must be an integer from 1 to 9223372036854775807', number, count)
    end
    local period_high, period_low = parse_seconds(period)
    if not period_low or period_high + period_low == 0 then
        return nil, fail('period must be seconds above 0, at most 9223372036.854775807'
            .. ' and with up to 9 fraction digits', number, period)
    end
    local quantity_high, quantity_low = parse_integer(quantity)
    if not quantity_low then
        return nil, fail('quantity must be an integer from 0 to 9223372036854775807', number, quantity)
    end

    local interval_high, interval_low = divide(period_high, period_low, count_high, count_low)
    if interval_high + interval_low == 0 then
        return nil, fail_together('count is too large for period: less than 1 nanosecond per token', number)
    end
    local tolerance_high, tolerance_low = multiply(interval_high, interval_low, capacity_high, capacity_low)
    if not fits_63_bits(tolerance_high, tolerance_low) then
        return nil, fail_together('capacity and period are too large together for count:'
            .. ' a full funnel must drain within 2^63-1 nanoseconds (292 years)', number)
    end
    local increment_high, increment_low = multiply(interval_high, interval_low, quantity_high, quantity_low)
    if command ~= 'take' and not fits_63_bits(increment_high, increment_low) then
        return nil, fail_quantity('the tokens must leak within 2^63-1 nanoseconds (292 years)', number)
    end
    return {
        limit = integer(capacity_high, capacity_low),
        interval_high = interval_high, interval_low = interval_low,
        tolerance_high = tolerance_high, tolerance_low = tolerance_low,
        increment_high = increment_high, increment_low = increment_low,
        quantity_high = quantity_high, quantity_low = quantity_low,
    }
end

local others = ({reserve = 2, take = 1, peek = 1, charge = 1, refund = 2})[command] -- words, beside the funnels
if not others then
    return fail('the script takes 1 to 64 keys, then reserve, take, peek, charge or refund, then capacity, count,'
        .. ' period and quantity for each key, and then, for reserve, max_wait, and for refund, tat')
elseif #KEYS < 1 or #KEYS > (command == 'take' and 1 or 64) or #ARGV < 1 + 4 * #KEYS or #ARGV > others + 4 * #KEYS then
    return fail("wrong number of arguments for 'cl." .. command .. "' command")
end

local funnels = {}
for i = 1, #KEYS do
    local funnel, problem = parse_funnel(i)
    if problem then return problem end
    funnels[i] = funnel
end

local last_word = ARGV[2 + 4 * #KEYS]
local longest_high, longest_low, receipt_high, receipt_low = 0, 0, nil, nil
if last_word and command == 'refund' then
    receipt_high, receipt_low = parse_integer(last_word)
    if not receipt_low then
        return fail('tat must be an integer from 0 to 9223372036854775807', nil, last_word)
    elseif #KEYS > 1 then
        return fail('tat must be left out for several funnels: give the tokens of each back by a call of its own')
    end
elseif last_word then
    longest_high, longest_low = parse_seconds(last_word)
    if not longest_low then
        return fail('max_wait must be seconds from 0 to 9223372036.854775807'
            .. ' with up to 9 fraction digits', nil, last_word)
    elseif #KEYS > 1 and longest_high + longest_low > 0 then
        return fail('max_wait must be 0 for several funnels:'
            .. ' ask again after the wait that a limited call replies', nil, last_word)
    end
end
if #KEYS > 1 then
    local named = {}
    for i, key in ipairs(KEYS) do
        if named[key] then
            return fail('the key is named twice in this call: ask once, for all of its tokens', i)
        end
        named[key] = true
    end
end

local time = redis.call('TIME')
local now_high, now_low = tonumber(time[1]), time[2] * 1000

-- How long it is until an instant, at least 0.
local function span_until(instant_high, instant_low)
    local high, low = carry(instant_high - now_high, instant_low - now_low)
    if high < 0 then return 0, 0 end
    return high, low
end

-- The level of a funnel is how long it takes to drain.
for i, funnel in ipairs(funnels) do
    local stored = redis.pcall('GET', KEYS[i]) or '0'
    if type(stored) == 'table' then return {err = stored.err} end
    local tat_high, tat_low = parse_integer(stored)
    if not tat_low then
        return fail('the key does not hold a funnel:'
            .. ' its value is not an integer from 0 to 9223372036854775807', i)
    end
    funnel.level_high, funnel.level_low = span_until(tat_high, tat_low)
end

-- What each funnel says alone. The wait is -1 where asking again never helps.
local limited, wait_high, wait_low = 0, 0, 0
local taken -- by CL.TAKE
for i, funnel in ipairs(funnels) do
    local increment_high, increment_low = funnel.increment_high, funnel.increment_low
    local tolerance_high, tolerance_low = funnel.tolerance_high, funnel.tolerance_low
    local missing_high, missing_low = 0, 0 -- how long another token would take to leak
    if command == 'take' then
        local fit_high, fit_low = 0, 0
        local room_high, room_low = carry(tolerance_high - funnel.level_high, tolerance_low - funnel.level_low)
        if room_high >= 0 then
            fit_high, fit_low = divide(room_high, room_low, funnel.interval_high, funnel.interval_low)
        end
        if above(funnel.quantity_high, funnel.quantity_low, fit_high, fit_low) then
            missing_high, missing_low = funnel.interval_high, funnel.interval_low
        else
            fit_high, fit_low = funnel.quantity_high, funnel.quantity_low
        end
        taken = integer(fit_high, fit_low)
        increment_high, increment_low = multiply(funnel.interval_high, funnel.interval_low, fit_high, fit_low)
    elseif receipt_low then
        local left_high, left_low = span_until(receipt_high, receipt_low)
        if above(increment_high, increment_low, left_high, left_low) then
            increment_high, increment_low = left_high, left_low
        end
    end
    local filled_high, filled_low = carry(funnel.level_high + increment_high, funnel.level_low + increment_low)
    if command == 'refund' then
        filled_high, filled_low = carry(funnel.level_high - increment_high, funnel.level_low - increment_low)
        if filled_high < 0 then filled_high, filled_low = 0, 0 end
    end
    funnel.limited, funnel.wait_high, funnel.wait_low = 0, 0, 0
    local over_high, over_low = carry(filled_high - tolerance_high + missing_high, filled_low - tolerance_low + missing_low)
    if above(over_high, over_low, 0, 0) and (command ~= 'take' or missing_high + missing_low > 0) then
        if command ~= 'reserve' and command ~= 'peek' then
            funnel.limited = 1
        elseif above(increment_high, increment_low, tolerance_high, tolerance_low) then
            funnel.limited, over_high, over_low = 1, -1, 0
        elseif above(over_high, over_low, longest_high, longest_low) then
            funnel.limited = 1
            over_high, over_low = carry(over_high - longest_high, over_low - longest_low)
        end
        funnel.wait_high, funnel.wait_low = over_high, over_low
        if funnel.limited == 1 then limited = 1 end
        if wait_high >= 0 and (over_high < 0 or above(over_high, over_low, wait_high, wait_low)) then
            wait_high, wait_low = over_high, over_low
        end
    end
    if (funnel.limited == 0 or command == 'charge' or command == 'take') and
        not fits_63_bits(carry(now_high + filled_high, now_low + filled_low)) then
        return fail_quantity('the funnel must be empty again before the year 2262,'
            .. ' 2^63-1 nanoseconds after the epoch', i)
    end
    funnel.filled_high, funnel.filled_low = filled_high, filled_low
end

local rows, writes = {}, command ~= 'peek' and (command ~= 'reserve' or limited == 0)
for i, funnel in ipairs(funnels) do
    local high, low, receipt = funnel.level_high, funnel.level_low, '0'
    if writes and (funnel.filled_high ~= high or funnel.filled_low ~= low) then
        high, low = funnel.filled_high, funnel.filled_low
        if high + low == 0 then
            redis.call('DEL', KEYS[i])
        else
            local seconds, nanoseconds = carry(now_high + high, now_low + low)
            local tat = digits(seconds, nanoseconds)
            redis.call('SET', KEYS[i], tat, 'PXAT', seconds * 1000 + math.ceil(nanoseconds / 1000000))
            if command ~= 'refund' then receipt = tat end
        end
    end
    local remaining, room_high, room_low = 0, carry(funnel.tolerance_high - high, funnel.tolerance_low - low)
    if room_high >= 0 then
        remaining = integer(divide(room_high, room_low, funnel.interval_high, funnel.interval_low))
    end
    rows[i] = {funnel.limited, funnel.limit, remaining, decimal(funnel.wait_high, funnel.wait_low), decimal(high, low), receipt}
end
return {limited, decimal(wait_high, wait_low), rows, taken}
