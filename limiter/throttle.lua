-- CL.THROTTLE for servers that load no modules: the same key, the same value, the
-- same answers and errors, to the nanosecond, so that module and script can work
-- on one funnel at once.
--
--   EVAL script 1 key capacity count period [quantity [now]]
--
-- replies the five integers of CL.THROTTLE, and behind them retry_after and
-- reset_after once more, in nanoseconds, as strings. Numbers of more than 15
-- digits are strings, too. Now, in nanoseconds since the epoch, takes the place
-- of the server's clock, for tests.
--
-- A number of Lua is a double, which counts to 2^53 without a gap, but what is
-- counted here takes 63 bits. So an instant is kept as two: the seconds, and the
-- nanoseconds. Spans of up to 52 days fit into one; that is what nearly everybody
-- asks for, and costs half, so it comes first. The rest of the script decides what
-- is larger, or wrong.

local capacity, count, period, quantity = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or '1'

local now_high, now_low
if ARGV[5] then
    now_high, now_low = tonumber(string.sub(ARGV[5], 1, -10)) or 0, tonumber(string.sub(ARGV[5], -9))
else
    local time = redis.call('TIME')
    now_high, now_low = tonumber(time[1]), time[2] * 1000
end

-- The sum of two is below 2^53, and exact.
local SPAN = 4500000000000000

-- Whole numbers, without sign and leading zeros, whose products are exact or too large.
local find = string.find
if #KEYS == 1 and #ARGV <= 5 and period and #capacity <= 9 and #count <= 9 and #period <= 6 and #quantity <= 9
    and find(capacity, '^[1-9]%d*$') and find(count, '^[1-9]%d*$') and find(period, '^[1-9]%d*$')
    and (find(quantity, '^[1-9]%d*$') or quantity == '0') then
    local floor, ceil = math.floor, math.ceil
    local interval = floor(period * 1000000000 / count)
    local tolerance, increment = interval * capacity, interval * quantity
    local stored = redis.pcall('GET', KEYS[1])
    local level = 0
    if stored then
        -- Only funnels of this time have ten digits of seconds.
        level = type(stored) == 'string' and #stored == 19 and find(stored, '^[1-9]%d*$') and stored < '9'
            and (string.sub(stored, 1, 10) - now_high) * 1000000000 + (string.sub(stored, 11) - now_low)
    end
    if level and level < SPAN and tolerance < SPAN and increment < SPAN and interval > 0 and now_high < 9000000000 then
        if level < 0 then level = 0 end
        local limited, retry_after = 0, -1
        if level + increment > tolerance then
            limited = 1
            if increment <= tolerance then retry_after = level + increment - tolerance end
        elseif increment > 0 then
            level = level + increment
            local low = now_low + level
            local high = now_high + floor(low / 1000000000)
            low = low % 1000000000
            redis.call('SET', KEYS[1], string.format('%d%09d', high, low),
                'PXAT', string.format('%d', high * 1000 + ceil(low / 1000000)))
        end
        local remaining = level < tolerance and floor((tolerance - level) / interval) or 0
        return {limited, tonumber(capacity), remaining,
            retry_after < 0 and -1 or ceil(retry_after / 1000000000), ceil(level / 1000000000),
            string.format('%d', retry_after), string.format('%d', level)}
    end
end

-- From here on, each number is kept as two: how many billions, and the rest.

local BILLION = 1000000000
local floor, sub, format = math.floor, string.sub, string.format

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

-- Rounded up, so that who waits so long has waited long enough.
local function seconds(high, low)
    return low > 0 and high + 1 or high
end

-- As a double, an integer of more digits would be rounded.
local function exact(digits)
    return #digits <= 15 and tonumber(digits) or digits
end

local function refuse(reason, value)
    if value and value ~= '' then
        reason = reason .. ", not '" .. string.gsub(sub(value, 1, 40), '[^ -~]', '?') .. "'"
        if #value > 40 then reason = reason .. ' and more' end
    end
    return {err = 'ERR ' .. reason}
end

local function refuse_together(reason)
    return refuse(reason .. ', not capacity ' .. capacity .. ', count ' .. count
        .. ', period ' .. period .. ', quantity ' .. quantity)
end

if #KEYS ~= 1 or #ARGV < 3 or #ARGV > 5 then
    return refuse('the script takes 1 key and capacity, count, period, quantity')
elseif not is_integer(capacity, 1) then
    return refuse('capacity must be an integer from 1 to 9223372036854775807', capacity)
elseif not is_integer(count, 1) then
    return refuse('count must be an integer from 1 to 9223372036854775807', count)
end
local period_high, period_low = parse_seconds(period)
if not period_high then
    return refuse('period must be seconds above 0, at most 9223372036.854775807'
        .. ' and with up to 9 fraction digits', period)
elseif not is_integer(quantity, 0) then
    return refuse('quantity must be an integer from 0 to 9223372036854775807', quantity)
end

local interval_high, interval_low = divide(period_high, period_low, split(count))
if interval_high + interval_low == 0 then
    return refuse_together('count is too large for period: less than 1 nanosecond per token')
end
local tolerance_high, tolerance_low = multiply(interval_high, interval_low, capacity)
if not tolerance_high then
    return refuse_together('capacity and period are too large together for count:'
        .. ' a full funnel must drain within 2^63-1 nanoseconds (292 years)')
end

local increment_high, increment_low = multiply(interval_high, interval_low, quantity)
if not increment_high then
    return refuse_together('quantity and period are too large together for count:'
        .. ' the tokens must leak within 2^63-1 nanoseconds (292 years)')
end

local stored = redis.pcall('GET', KEYS[1])
if type(stored) == 'table' then return {err = stored.err} end
if stored and not is_integer(stored, 0) then
    return refuse('the key does not hold a funnel:'
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
    return refuse_together('quantity and period are too large together for count:'
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
