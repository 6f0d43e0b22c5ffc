-- CL.THROTTLE as a script, for servers that load no modules: the same key, value,
-- reply and errors as those of the command, to the nanosecond, so that both can work
-- on one funnel.
--
--   EVAL script 1 key capacity count period [quantity [now]]
--
-- replies the five integers of CL.THROTTLE, then retry_after and reset_after again, in
-- nanoseconds, as strings. Numbers of more than 15 digits are strings, too. Now, in
-- nanoseconds since the epoch, takes the place of the server's clock, for tests.
--
-- This part is complete: it decides every call. throttle_short.lua, in front of it,
-- decides most calls at little more than half the cost.
--
-- A number of Lua is a double, exact up to 2^53, but times here take 63 bits. So each
-- is kept as two numbers: how many billions, and the rest.

local capacity, count, period, quantity = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or '1'

local BILLION = 1000000000
local floor, find, sub, format = math.floor, string.find, string.sub, string.format

local function split(digits)
    if #digits <= 9 then return 0, tonumber(digits) end
    return tonumber(sub(digits, 1, -10)), tonumber(sub(digits, -9))
end

local function join(high, low)
    if high == 0 then return format('%d', low) end
    return format('%d%09d', high, low)
end

local function below(a_high, a_low, b_high, b_low)
    return a_high < b_high or (a_high == b_high and a_low < b_low)
end

local function fits_63_bits(high, low)
    return below(high, low, 9223372036, 854775808)
end

local function add(a_high, a_low, b_high, b_low)
    local low = a_low + b_low
    if low < BILLION then return a_high + b_high, low end
    return a_high + b_high + 1, low - BILLION
end

-- The second number is not above the first.
local function subtract(a_high, a_low, b_high, b_low)
    local low = a_low - b_low
    if low >= 0 then return a_high - b_high, low end
    return a_high - b_high - 1, low + BILLION
end

-- The product with a number below a million.
local function times(high, low, small)
    low = low * small
    return high * small + floor(low / BILLION), low % BILLION
end

-- Six digits of the factor at a time, so that no step is inexact before it is too
-- large. Returns nothing for a product beyond 63 bits.
local function multiply(high, low, factor)
    local product_high, product_low = 0, 0
    for from = (#factor - 1) % 6 - 4, #factor, 6 do
        local digits = tonumber(sub(factor, from > 1 and from or 1, from + 5))
        product_high, product_low = times(product_high, product_low, 1000000)
        product_high, product_low = add(product_high, product_low, times(high, low, digits))
        if not fits_63_bits(product_high, product_low) then return end
    end
    return product_high, product_low
end

-- The quotient, rounded down.
local function divide(a_high, a_low, b_high, b_low)
    if b_high == 0 and b_low < 9007199 then -- a remainder and nine digits are below 2^53
        local high = floor(a_high / b_low)
        return high, floor((a_high % b_low * BILLION + a_low) / b_low)
    end
    -- Below 2^63 / 9007199, about 10^12, so the guess is at most one off.
    local guess = floor((a_high * BILLION + a_low) / (b_high * BILLION + b_low))
    local high, low = times(b_high, b_low, floor(guess / 1000000))
    high, low = times(high, low, 1000000)
    high, low = add(high, low, times(b_high, b_low, guess % 1000000))
    if below(a_high, a_low, high, low) then
        guess = guess - 1
    elseif not below(a_high, a_low, add(high, low, b_high, b_low)) then
        guess = guess + 1
    end
    return floor(guess / BILLION), guess % BILLION
end

-- An integer from least to 2^63-1, written without sign and leading zeros.
local function is_integer(text, least)
    return (find(text, '^[1-9]%d*$') or (text == '0' and least == 0))
        and (#text < 19 or (#text == 19 and text <= '9223372036854775807'))
end

-- Seconds with up to nine digits behind the point. Returns nothing for others.
local function parse_seconds(text)
    local whole, fraction = text, ''
    local point = find(text, '.', 1, true)
    if point then
        whole, fraction = sub(text, 1, point - 1), sub(text, point + 1)
        if not find(fraction, '^%d+$') or #fraction > 9 then return end
    end
    if not is_integer(whole, 0) then return end
    local high, low = tonumber(whole), tonumber(fraction .. string.rep('0', 9 - #fraction))
    if high + low > 0 and fits_63_bits(high, low) then return high, low end
end

-- Rounded up, so that a caller who waits that long has waited long enough.
local function seconds(high, low)
    return low > 0 and high + 1 or high
end

-- As a double, an integer of more digits would be rounded.
local function exact(digits)
    return #digits <= 15 and tonumber(digits) or digits
end

local function fail(reason, value)
    if value and value ~= '' then
        reason = reason .. ", not '" .. string.gsub(sub(value, 1, 40), '[^ -~]', '?') .. "'"
        if #value > 40 then reason = reason .. ' and more' end
    end
    return {err = 'ERR ' .. reason}
end

local function fail_together(reason)
    return fail(reason .. ', not capacity ' .. capacity .. ', count ' .. count
        .. ', period ' .. period .. ', quantity ' .. quantity)
end

if #KEYS ~= 1 or #ARGV < 3 or #ARGV > 5 then
    return fail('the script takes 1 key and capacity, count, period, quantity')
elseif not is_integer(capacity, 1) then
    return fail('capacity must be an integer from 1 to 9223372036854775807', capacity)
elseif not is_integer(count, 1) then
    return fail('count must be an integer from 1 to 9223372036854775807', count)
end
local period_high, period_low = parse_seconds(period)
if not period_high then
    return fail('period must be seconds above 0, at most 9223372036.854775807'
        .. ' and with up to 9 fraction digits', period)
elseif not is_integer(quantity, 0) then
    return fail('quantity must be an integer from 0 to 9223372036854775807', quantity)
end

local interval_high, interval_low = divide(period_high, period_low, split(count))
if interval_high + interval_low == 0 then
    return fail_together('count is too large for period: less than 1 nanosecond per token')
end
local tolerance_high, tolerance_low = multiply(interval_high, interval_low, capacity)
if not tolerance_high then
    return fail_together('capacity and period are too large together for count:'
        .. ' a full funnel must drain within 2^63-1 nanoseconds (292 years)')
end

local increment_high, increment_low = multiply(interval_high, interval_low, quantity)
if not increment_high then
    return fail_together('quantity and period are too large together for count:'
        .. ' the tokens must leak within 2^63-1 nanoseconds (292 years)')
end

local now_high, now_low
if ARGV[5] then
    now_high, now_low = split(ARGV[5])
else
    local time = redis.call('TIME')
    now_high, now_low = tonumber(time[1]), time[2] * 1000
end

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'table' then return {err = stored.err} end
if stored and not is_integer(stored, 0) then
    return fail('the key does not hold a funnel:'
        .. ' its value is not an integer from 0 to 9223372036854775807')
end

local tat_high, tat_low = split(stored or '0')
if below(tat_high, tat_low, now_high, now_low) then tat_high, tat_low = now_high, now_low end
local filled_high, filled_low = add(tat_high, tat_low, increment_high, increment_low)
local full_high, full_low = add(now_high, now_low, tolerance_high, tolerance_low)

local limited, retry_seconds, retry_after = 0, -1, '-1'
local reset_high, reset_low
if below(full_high, full_low, filled_high, filled_low) then
    limited = 1
    reset_high, reset_low = subtract(tat_high, tat_low, now_high, now_low)
    if not below(tolerance_high, tolerance_low, increment_high, increment_low) then
        local high, low = subtract(filled_high, filled_low, full_high, full_low)
        retry_seconds, retry_after = seconds(high, low), join(high, low)
    end
elseif not fits_63_bits(filled_high, filled_low) then
    return fail_together('quantity and period are too large together for count:'
        .. ' the funnel must be empty again before the year 2262, 2^63-1 nanoseconds after the epoch')
else
    reset_high, reset_low = subtract(filled_high, filled_low, now_high, now_low)
    if quantity ~= '0' then
        local expiry = filled_high * 1000 + math.ceil(filled_low / 1000000)
        redis.call('SET', KEYS[1], join(filled_high, filled_low), 'PXAT', format('%d', expiry))
    end
end

local remaining = 0
if below(reset_high, reset_low, tolerance_high, tolerance_low) then
    local room_high, room_low = subtract(tolerance_high, tolerance_low, reset_high, reset_low)
    remaining = exact(join(divide(room_high, room_low, interval_high, interval_low)))
end
return {limited, exact(capacity), remaining, retry_seconds, seconds(reset_high, reset_low),
    retry_after, join(reset_high, reset_low)}
