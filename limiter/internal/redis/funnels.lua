-- CL.RESERVE, CL.TAKE, CL.PEEK, CL.CHARGE and CL.REFUND as a script, for servers that load no modules: the same keys,
-- values, replies and effects. Script and module can share a key.
--
--   EVAL script n key ... operation capacity count period quantity ... [max_wait | tat]
--
-- The operation is reserve, take, peek, charge or refund, in lower case. Each of the 1 to 64 keys is a row, and has
-- four words, in the order of the keys: capacity count period quantity for a funnel, limit SLOTS ttl holder for slots,
-- limit UNTIL until quantity for a quota, whose until is +seconds for a period from the first call. max_wait is for
-- reserve, tat for refund. Integers of more than 15 digits are strings in the reply.
--
-- Each kind of row is a table of functions: parse the words, read the state, decide, and write the state and the reply.
-- They return an error as their last result.
--
-- A time has up to 63 bits, but doubles of Lua are exact only up to 2^53, the nanoseconds of 104 days. So a time is two
-- numbers: seconds (_s) and nanoseconds (_ns). Sums are exact. The product of a time and a number is exact if the
-- number is at most MOST, or the product is below DAYS_104. A call that needs another product gets an error.

---- Times

-- Returns the time with 0 to 999,999,999 nanoseconds. The seconds of a negative time are negative.
local function carry(s, ns)
    local rest = ns % 1e9
    return s + (ns - rest) / 1e9, rest
end

-- Above 0 if the first time is longer, and below 0 if the second is.
local function compare(a_s, a_ns, b_s, b_ns) return (a_s - b_s) * 1e9 + (a_ns - b_ns) end

-- Above 2^63-1 nanoseconds.
local function too_long(s, ns) return s > 9223372036 or s == 9223372036 and ns > 854775807 end

-- Returns how many whole tokens leak in a time. The rounded quotient is right or one too large.
local function tokens_in(s, ns, interval_s, interval_ns)
    if s * 1e9 + ns <= 0 then return 0 end
    local tokens = math.floor((s * 1e9 + ns) / (interval_s * 1e9 + interval_ns) + 0.5)
    local rest = (s - interval_s * tokens) * 1e9 + (ns - interval_ns * tokens)
    return rest < 0 and tokens - 1 or tokens
end

---- Words. The functions that parse return nothing for a word that is wrong

-- From 0 to 2^63-1, without sign and leading zeros.
local function parse_nanoseconds(text)
    if #text > 19 or not text:find('^[1-9]%d*$') and text ~= '0' then return end
    if #text < 10 then return 0, text + 0 end
    local s, ns = text:sub(1, -10) + 0, text:sub(-9) + 0
    if not too_long(s, ns) then return s, ns end
end

-- From 0 to 2^63-1, as one number. Above 2^53 it is rounded: such a number is too large, or more than CL.TAKE can take.
local function parse_integer(text)
    if #text < 19 and (text:find('^[1-9]%d*$') or text == '0') or parse_nanoseconds(text) then return text + 0 end
end

-- Up to 2^63-1 nanoseconds, with up to nine fraction digits.
local function parse_seconds(text)
    local s, ns = parse_integer(text), 0
    if not s then
        local whole, fraction = text:match('^(%d+)%.(%d+)$')
        if not whole or #fraction > 9 then return end
        s, ns = parse_integer(whole), (fraction .. '00000000'):sub(1, 9) + 0
    end
    if s and not too_long(s, ns) then return s, ns end
end

local function decimal(s, ns)
    if s == 1e12 then return '-1' end
    if ns == 0 then return string.format('%d', s) end
    return string.format('%d.%09d', s, ns):match('.*[1-9]')
end

-- Returns an error that shows the wrong word or, if together, the words of row i that are too large together.
local function fail(i, reason, word, together)
    if i and #KEYS > 1 then reason = 'row ' .. i .. ': ' .. reason end
    if word and word ~= '' then
        reason = reason .. ", not '" .. word:sub(1, 40):gsub('[^ -~]', '?') .. "'"
    elseif together then
        reason = reason .. ' (capacity count period quantity: ' .. table.concat(ARGV, ' ', 4 * i - 2, 4 * i + 1) .. ')'
    end
    return {err = 'INVALID ' .. reason}
end

---- The call

local length, operation, last_word = #KEYS, ARGV[1], ARGV[2 + 4 * #KEYS]
local takes, refunds = operation == 'take', operation == 'refund'
local decides = operation == 'reserve' or operation == 'peek'
if not (decides or takes or refunds or operation == 'charge') then
    return fail(nil, 'the script takes 1 to 64 keys, then reserve, take, peek, charge or refund, then capacity, count,'
        .. ' period and quantity for each key, and then, for reserve, max_wait, and for refund, tat')
end
local more_words = #ARGV - 1 - 4 * length
if length < 1 or length > (takes and 1 or 64) or more_words < 0
    or more_words > ((operation == 'reserve' or refunds) and 1 or 0) then
    return {err = "ERR wrong number of arguments for 'cl." .. operation .. "' command"} -- as servers word it
end

-- The call, for the functions of the kinds. The variables without a value get one before a function needs it.
local time = redis.call('TIME')
local now_s, now_ns = time[1] + 0, time[2] * 1000
local max_wait_s, max_wait_ns, most_back_s, most_back_ns = 0, 0, 1e12, 0
local taken  -- by CL.TAKE
local writes -- whether the decision is written

---- Funnels

local function parse_funnel(i, word)
    local capacity, count = parse_integer(ARGV[word]), parse_integer(ARGV[word + 1])
    local period_s, period_ns = parse_seconds(ARGV[word + 2])
    local quantity = parse_integer(ARGV[word + 3])
    if not capacity or capacity == 0 then
        return nil, fail(i, 'capacity must be an integer from 1 to 9223372036854775807', ARGV[word])
    elseif not count or count == 0 then
        return nil, fail(i, 'count must be an integer from 1 to 9223372036854775807', ARGV[word + 1])
    elseif not period_s or period_s + period_ns == 0 then
        return nil, fail(i, 'period must be seconds above 0, at most 9223372036.854775807'
            .. ' and with up to 9 fraction digits', ARGV[word + 2])
    elseif not quantity then
        return nil, fail(i, 'quantity must be an integer from 0 to 9223372036854775807', ARGV[word + 3])
    end

    local MOST, DAYS_104 = 4000000, 104 * 86400
    local beyond -- the number that the script cannot compute with
    local rest = period_s % count -- of a long division, period by count
    local rest_ns = rest * 1e9 + period_ns
    local interval_s, interval_ns = (period_s - rest) / count, (rest_ns - rest_ns % count) / count
    local tolerance_s, tolerance_ns = carry(interval_s * capacity, interval_ns * capacity)
    local increment_s, increment_ns = carry(interval_s * quantity, interval_ns * quantity)
    if count > MOST and period_s >= DAYS_104 then
        beyond = 'count'
    elseif interval_s + interval_ns == 0 then
        return nil, fail(i, 'count is too large for period: less than 1 nanosecond per token', nil, true)
    elseif capacity > MOST and tolerance_s >= DAYS_104 then
        beyond = 'capacity'
    elseif too_long(tolerance_s, tolerance_ns) then
        return nil, fail(i, 'capacity and period are too large together for count:'
            .. ' a full funnel must drain within 2^63-1 nanoseconds (292 years)', nil, true)
    elseif not takes and quantity > MOST and increment_s >= DAYS_104 then
        beyond = 'quantity'
    elseif not takes and too_long(increment_s, increment_ns) then
        return nil, fail(i, 'quantity and period are too large together for count:'
            .. ' the tokens must leak within 2^63-1 nanoseconds (292 years)', nil, true)
    end
    if beyond then
        return nil, fail(i, beyond .. ' and period are too large together for the script: it takes numbers up to'
            .. ' 4000000, or times below 104 days; choose smaller ones, or load the module funnel', nil, true)
    end
    return {
        limit = capacity < 1e15 and capacity or ARGV[word], quantity = quantity,
        interval_s = interval_s, interval_ns = interval_ns, tolerance_s = tolerance_s, tolerance_ns = tolerance_ns,
        increment_s = increment_s, increment_ns = increment_ns,
        level_s = 0, level_ns = 0, -- how long the funnel takes to drain
    }
end

local function read_funnel(i, key, row)
    local stored = redis.pcall('GET', key) or '0'
    if type(stored) == 'table' then return {err = stored.err} end
    local tat_s, tat_ns = parse_nanoseconds(stored)
    if not tat_s then
        return fail(i, 'the key does not hold a funnel: its value is not an integer from 0 to 9223372036854775807')
    end
    local level_s, level_ns = carry(tat_s - now_s, tat_ns - now_ns)
    if level_s >= 0 then row.level_s, row.level_ns = level_s, level_ns end
end

-- Returns how long to wait, 1e12 seconds for never.
local function decide_funnel(i, row)
    local level_s, level_ns, add_s, add_ns = row.level_s, row.level_ns, row.increment_s, row.increment_ns
    local tolerance_s, tolerance_ns = row.tolerance_s, row.tolerance_ns
    if takes then
        taken = tokens_in(tolerance_s - level_s, tolerance_ns - level_ns, row.interval_s, row.interval_ns)
        taken = math.min(taken, row.quantity)
        add_s, add_ns = row.interval_s * taken, row.interval_ns * taken
    elseif refunds then
        if compare(most_back_s, most_back_ns, add_s, add_ns) < 0 then add_s, add_ns = most_back_s, most_back_ns end
        if compare(level_s, level_ns, add_s, add_ns) < 0 then add_s, add_ns = level_s, level_ns end
        add_s, add_ns = -add_s, -add_ns
    end
    level_s, level_ns = carry(level_s + add_s, level_ns + add_ns)
    row.next_s, row.next_ns = level_s, level_ns
    local too_late = too_long(carry(now_s + level_s, now_ns + level_ns))

    local over_s, over_ns = carry(level_s - tolerance_s, level_ns - tolerance_ns)
    local waits = over_s >= 0 and over_s + over_ns > 0
    if takes then -- until another token fits
        waits = taken < row.quantity
        row.limited, over_s, over_ns = waits and 1 or 0, carry(over_s + row.interval_s, over_ns + row.interval_ns)
    elseif waits and decides and compare(add_s, add_ns, tolerance_s, tolerance_ns) > 0 then
        row.limited, over_s = 1, 1e12 -- never
    elseif waits and compare(over_s, over_ns, max_wait_s, max_wait_ns) > 0 then
        row.limited, over_s, over_ns = 1, carry(over_s - max_wait_s, over_ns - max_wait_ns)
    end
    if too_late and (row.limited == 0 or not decides) then
        return nil, nil, fail(i, 'quantity and period are too large together for count:'
            .. ' the funnel must be empty again before the year 2262, 2^63-1 nanoseconds after the epoch', nil, true)
    end
    if not waits then return 0, 0 end
    return over_s, over_ns
end

-- Returns the reply of the row.
local function write_funnel(key, row)
    local receipt, level_s, level_ns = '0', row.level_s, row.level_ns
    if writes and (row.next_s ~= level_s or row.next_ns ~= level_ns) then
        level_s, level_ns = row.next_s, row.next_ns
        if level_s + level_ns == 0 then
            redis.call('DEL', key)
        else
            local s, ns = carry(now_s + level_s, now_ns + level_ns)
            local tat = s == 0 and string.format('%d', ns) or string.format('%d%09d', s, ns)
            redis.call('SET', key, tat, 'PXAT', string.format('%d', s * 1000 + math.ceil(ns / 1e6)))
            if not refunds then receipt = tat end
        end
    end
    local remaining = tokens_in(row.tolerance_s - level_s, row.tolerance_ns - level_ns, row.interval_s, row.interval_ns)
    if remaining >= 1e15 then remaining = string.format('%d', remaining) end
    return {row.limited, row.limit, remaining, row.wait, decimal(level_s, level_ns), receipt}
end

local funnel = {parse = parse_funnel, read = read_funnel, decide = decide_funnel, write = write_funnel}

---- Slots and quotas. Their functions are made only for calls that have them, because making them takes time

local function make_kind(name)
    ---- Slots

    if name == 'slots' then
        local function parse_slots(i, word)
            local limit_s, limit_ns = parse_nanoseconds(ARGV[word]) -- a pair, as times are
            local ttl_s, ttl_ns = parse_seconds(ARGV[word + 2])
            local holder = ARGV[word + 3]
            if not limit_s then
                return nil, fail(i, 'limit must be an integer from 0 to 9223372036854775807', ARGV[word])
            elseif not ttl_s or ttl_s == 0 and ttl_ns < 1e6 then
                return nil, fail(i, 'ttl must be seconds from 0.001 to 9223372036.854775807'
                    .. ' with up to 9 fraction digits', ARGV[word + 2])
            elseif #holder < 1 or #holder > 255 then
                return nil, fail(i, 'holder must be 1 to 255 bytes', holder)
            end
            local most = limit_s * 1e9 + limit_ns -- rounded above 2^53, and no set is as large
            return {
                limit = most < 1e15 and most or ARGV[word], most = most, limit_s = limit_s, limit_ns = limit_ns,
                ttl_s = ttl_s, ttl_ns = ttl_ns, ttl = ARGV[word + 2], holder = holder,
            }
        end

        -- A slot ends at its score, rounded up to milliseconds. It runs while now, rounded down, is before its end.
        local now_ms = now_s * 1000 + math.floor(now_ns / 1e6)
        local RUNNING = string.format('(%d', now_ms)

        local function end_of(score)
            return math.ceil(math.max(0, tonumber(score) or score == 'inf' and math.huge or 0))
        end

        -- The time until an end that has not passed, at most 2^63-1 nanoseconds; 0 for none.
        local function until_end(ms)
            if ms == 0 then return 0, 0 end
            local s, ns = carry(math.floor(ms / 1000) - now_s, ms % 1000 * 1e6 - now_ns)
            if ms >= 1e14 or too_long(s, ns) then return 9223372036, 854775807 end
            return s, ns
        end

        -- Returns the end of the first of two slots that is not the holder's; 0 for none.
        local function end_of_other(holder, slots)
            return end_of(slots[slots[1] == holder and 4 or 2])
        end

        local function read_slots(i, key, row)
            local number = redis.pcall('ZCARD', key)
            if type(number) == 'table' then return {err = number.err} end
            row.own = end_of(redis.call('ZSCORE', key, row.holder))
            if row.own <= now_ms then row.own = 0 end
            row.others = redis.call('ZCOUNT', key, RUNNING, '+inf') - (row.own > 0 and 1 or 0)
            row.first = end_of_other(row.holder,
                redis.call('ZRANGEBYSCORE', key, RUNNING, '+inf', 'WITHSCORES', 'LIMIT', 0, 2))
            row.last = end_of_other(row.holder,
                redis.call('ZREVRANGEBYSCORE', key, '+inf', RUNNING, 'WITHSCORES', 'LIMIT', 0, 2))
        end

        -- Returns how long to wait, 1e12 seconds for never.
        local function decide_slots(i, row)
            local free, renews = row.others < row.most, decides and row.own > 0
            row.next = refunds and 0 or row.own
            if not refunds and (free or renews or not decides) then
                local s, ns = carry(now_s + row.ttl_s, now_ns + row.ttl_ns)
                row.next = s * 1000 + math.ceil(ns / 1e6)
                if too_long(s, ns) then
                    return nil, nil, fail(i, 'ttl is too large: the slot must end before the year 2262,'
                        .. ' 2^63-1 nanoseconds after the epoch: got ttl ' .. row.ttl)
                end
            end
            if refunds or free or renews then return 0, 0 end
            row.limited = 1
            if decides and row.most == 0 then return 1e12, 0 end
            return until_end(math.min(row.first > 0 and row.first or math.huge, row.next > 0 and row.next or math.huge))
        end

        -- The key expires with the last end, and not at all if that is 2^63 or more.
        local function change_slots(key, row)
            if row.next == 0 then
                redis.call('ZREM', key, row.holder)
            else
                redis.call('ZADD', key, string.format('%d', row.next), row.holder)
            end
            local ended = redis.call('ZCOUNT', key, '-inf', string.format('%d', now_ms))
            if ended > 0 then redis.call('ZREMRANGEBYRANK', key, 0, math.min(ended, 1000) - 1) end
            local score = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
            if not score then return end
            local last, expiry = end_of(score), redis.pcall('PEXPIRETIME', key) -- an error before Redis 7.0
            if last >= 2 ^ 63 then
                if expiry ~= -1 then redis.call('PERSIST', key) end
            elseif expiry ~= last then
                redis.call('PEXPIREAT', key, string.format('%d', last))
            end
        end

        -- Returns the reply of the row.
        local function write_slots(key, row)
            local own = writes and row.next or row.own
            if own ~= row.own then change_slots(key, row) end
            local left_s, left_ns = carry(row.limit_s, row.limit_ns - row.others - (own > 0 and 1 or 0))
            if left_s < 0 then left_s, left_ns = 0, 0 end
            local remaining = left_s * 1e9 + left_ns
            if remaining >= 1e15 then remaining = string.format('%d%09d', left_s, left_ns) end
            return {row.limited, row.limit, remaining, row.wait,
                decimal(until_end(math.max(own, row.last))), decimal(until_end(row.own))}
        end
        return {parse = parse_slots, read = read_slots, decide = decide_slots, write = write_slots}
    end

    ---- Quotas

    local MOST = 2 ^ 53

    local function too_large(i, what, word)
        return fail(i, what .. ' is too large for the script: it takes up to 9007199254740992;'
            .. ' choose a smaller one, or load the module funnel', word)
    end

    -- The second result says whether the number is above MOST, and so is rounded.
    local function parse_exact(text)
        local s, ns = parse_nanoseconds(text)
        if s then return s * 1e9 + ns, compare(s, ns, 9007199, 254740992) > 0 end
    end

    local function parse_quota(i, word)
        local limit, limit_beyond = parse_exact(ARGV[word])
        local lasts = ARGV[word + 2]:sub(1, 1) == '+' -- a period from the first call, and its length as until
        local until_s, until_ns = parse_seconds(lasts and ARGV[word + 2]:sub(2) or ARGV[word + 2])
        local quantity, quantity_beyond = parse_exact(ARGV[word + 3])
        if not limit then
            return nil, fail(i, 'limit must be an integer from 0 to 9223372036854775807', ARGV[word])
        elseif lasts and refunds then
            return nil, fail(i, 'until must be the Unix time that a reply named:'
                .. ' it says which period counted the quantity', ARGV[word + 2])
        elseif not until_s or until_s == 0 and until_ns < (lasts and 1e6 or 1) then
            return nil, fail(i, 'until must be a Unix time in seconds above 0, or + and seconds from 0.001,'
                .. ' at most 9223372036.854775807 and with up to 9 fraction digits', ARGV[word + 2])
        elseif not quantity then
            return nil, fail(i, 'quantity must be an integer from 0 to 9223372036854775807', ARGV[word + 3])
        elseif limit_beyond or quantity_beyond then
            return nil, too_large(i, limit_beyond and 'limit' or 'quantity', ARGV[limit_beyond and word or word + 3])
        end
        return {
            limit = limit, quantity = quantity, lasts = lasts, until_s = until_s, until_ns = until_ns,
            until_ms = until_s * 1000 + math.ceil(until_ns / 1e6), word = ARGV[word + 2],
            used = 0, expiry = math.huge, -- in milliseconds; math.huge for none
        }
    end

    -- Only a refund may name a period that has ended.
    local function check_end(i, row)
        row.ended = not row.lasts and compare(row.until_s, row.until_ns, now_s, now_ns) <= 0
        if row.ended and not refunds then
            return {err = 'ENDED ' .. (#KEYS > 1 and 'row ' .. i .. ': ' or '') .. 'until must be later than'
                .. " the server's clock: got " .. row.word .. ', and it is ' .. decimal(now_s, now_ns)}
        end
    end

    local function in_seconds(ms) return math.floor(ms / 1000), ms % 1000 * 1e6 end

    local function read_quota(i, key, row)
        local stored = redis.pcall('GET', key)
        if not stored then return end
        if type(stored) == 'table' then return {err = stored.err} end
        local expiry = redis.pcall('PEXPIRETIME', key)
        if type(expiry) == 'table' then -- Before Redis 7.0, PTTL tells the expiry: at most 2 ms early, and never late.
            row.inexact, expiry = true, redis.call('PTTL', key)
            if expiry >= 0 then expiry = expiry + now_s * 1000 + math.floor(now_ns / 1e6) end
        end
        if expiry >= 0 then
            row.expiry_s, row.expiry_ns = in_seconds(expiry)
            if compare(row.expiry_s, row.expiry_ns, now_s, now_ns) <= 0 then
                row.expiry_s = nil
                return
            end
            row.expiry = expiry
            if expiry >= MOST then row.inexact = true end -- a number that other commands have written
        end
        local used, beyond = parse_exact(stored:match('^used:([1-9]%d*)$') or '')
        if not used then
            return fail(i, 'the key does not hold a quota:'
                .. ' its value is not used:N with an integer N from 1 to 9223372036854775807')
        elseif beyond then
            return too_large(i, 'the sum that is used')
        end
        row.used = used
    end

    -- Gives a row with + an until: the end of the period that runs or, if none runs, of one that begins now.
    local function find_end(i, row)
        local ms = row.expiry
        if not row.expiry_s then
            local s, ns = carry(now_s + row.until_s, now_ns + row.until_ns)
            ms = s * 1000 + math.ceil(ns / 1e6)
            if ms > 9223372036854 then
                return fail(i, 'until is too large: the period must end before the year 2262, 2^63-1 nanoseconds'
                    .. ' after the epoch: got until ' .. row.word .. ', quantity ' .. ARGV[4 * i + 1])
            end
        end
        row.until_ms, row.until_s, row.until_ns = ms, in_seconds(ms)
        if too_long(row.until_s, row.until_ns) then row.until_s, row.until_ns = 9223372036, 854775807 end
    end

    -- Returns how long to wait, 1e12 seconds for never.
    local function decide_quota(i, row)
        local too_late = row.lasts and find_end(i, row)
        if too_late then return nil, nil, too_late end
        local limit, used, quantity, most = row.limit, row.used, row.quantity, row.quantity
        row.end_s, row.end_ns = row.until_s, row.until_ns
        if row.expiry_s and (row.ended or compare(row.expiry_s, row.expiry_ns, row.until_s, row.until_ns) < 0) then
            row.end_s, row.end_ns = row.expiry_s, row.expiry_ns
        end
        local waits = quantity > 0 and quantity > limit - used
        if takes then
            taken = math.min(quantity, math.max(0, limit - used))
            waits, quantity, most = taken < quantity, taken, 1
        elseif refunds then
            waits, quantity = false, row.ended and 0 or -math.min(used, quantity)
        elseif not decides then -- a charge
            most = 0
            if quantity > MOST - used then return nil, nil, too_large(i, 'the sum that is used') end
        elseif waits then
            quantity = 0
        end
        row.next = used + quantity
        if not waits then return 0, 0 end
        row.limited = 1
        if most > limit then return 1e12, 0 end
        return carry(row.end_s - now_s, row.end_ns - now_ns)
    end

    -- Returns the reply of the row. Even a limited call cuts the period to until.
    local function write_quota(key, row)
        local used, last, left_s, left_ns = writes and row.next or row.used, '0', 0, 0
        local ends = refunds and row.expiry_s and row.expiry or math.min(row.expiry, row.until_ms)
        -- A receipt may be 2 ms early, too: it names the period that runs, and does not cut it.
        if row.inexact and row.expiry - row.until_ms <= 2 then ends = row.expiry end
        local cuts = used > 0 and ends ~= row.expiry and not refunds
        if ARGV[1] ~= 'peek' and (used ~= row.used or cuts) then
            if used == 0 then
                redis.call('DEL', key)
            elseif row.inexact and ends == row.expiry then
                redis.call('SET', key, string.format('used:%d', used), 'KEEPTTL')
            else
                redis.call('SET', key, string.format('used:%d', used), 'PXAT', string.format('%d', ends))
            end
            if used > row.used then last = decimal(row.end_s, row.end_ns) end
        end
        if used > 0 then
            left_s, left_ns = carry(row.end_s - now_s, row.end_ns - now_ns)
            if left_s < 0 then left_s, left_ns = 0, 0 end
            if too_long(left_s, left_ns) then left_s, left_ns = 9223372036, 854775807 end
        end
        local limit, remaining = row.limit, math.max(0, row.limit - used)
        if limit >= 1e15 then limit = string.format('%d', limit) end
        if remaining >= 1e15 then remaining = string.format('%d', remaining) end
        return {row.limited, limit, remaining, row.wait, decimal(left_s, left_ns), last}
    end
    return {parse = parse_quota, check = check_end, read = read_quota, decide = decide_quota, write = write_quota}
end

---- The rows are parsed, then the last word

local rows, slots, quotas, wrong = {}, nil, nil, nil
for i = 1, length do
    local word, kind, name = 4 * i - 2, funnel, ARGV[4 * i - 1]:lower()
    if name == 'slots' and not takes then
        slots = slots or make_kind(name)
        kind = slots
    elseif name == 'until' then
        quotas = quotas or make_kind(name)
        kind = quotas
    end
    rows[i], wrong = kind.parse(i, word)
    if wrong then return wrong end
    rows[i].kind = kind
end

if last_word then
    local s, ns = (refunds and parse_nanoseconds or parse_seconds)(last_word)
    local counts = s and (refunds or s + ns > 0)
    if not s then
        return fail(nil, refunds and 'tat must be an integer from 0 to 9223372036854775807'
            or 'max_wait must be seconds from 0 to 9223372036.854775807 with up to 9 fraction digits', last_word)
    elseif counts and slots then
        return fail(nil, refunds and "tat must be left out with SLOTS: the holder's name says which slot ends"
            or 'max_wait must be left out with SLOTS: ask again after a moment', last_word)
    elseif counts and quotas then
        return fail(nil, refunds and 'tat must be left out with UNTIL: until says which period counted the quantity'
            or 'max_wait must be left out with UNTIL: ask again after the wait that a limited call replies', last_word)
    elseif counts and length > 1 then
        return fail(nil, refunds and 'tat must be left out for several funnels:'
            .. ' give the tokens of each back by a call of its own'
            or 'max_wait must be 0 for several funnels:'
            .. ' ask again after the wait that a limited call replies', last_word)
    elseif refunds then
        most_back_s, most_back_ns = carry(s - now_s, ns - now_ns)
        if most_back_s < 0 then most_back_s, most_back_ns = 0, 0 end
    else
        max_wait_s, max_wait_ns = s, ns
    end
end

local seen = length > 1 and {}
for i = 2, length do
    seen[KEYS[i - 1]] = true
    if seen[KEYS[i]] then return fail(i, 'the key is named twice in this call: ask once, for all of its tokens') end
end

for i = 1, quotas and length or 0 do
    wrong = rows[i].kind == quotas and quotas.check(i, rows[i])
    if wrong then return wrong end
end

---- The keys are read

for i = 1, length do
    wrong = rows[i].kind.read(i, KEYS[i], rows[i])
    if wrong then return wrong end
end

---- Each row decides alone. The call is limited if any row is

local limited, wait, wait_s, wait_ns = 0, '0', 0, 0
for i = 1, length do
    local row, over_s, over_ns = rows[i], nil, nil
    row.limited, row.wait = 0, '0'
    over_s, over_ns, wrong = row.kind.decide(i, row)
    if wrong then return wrong end
    if over_s + over_ns > 0 then
        row.wait = decimal(over_s, over_ns)
        if compare(over_s, over_ns, wait_s, wait_ns) > 0 then wait, wait_s, wait_ns = row.wait, over_s, over_ns end
    end
    limited = math.max(limited, row.limited)
end

---- The keys are written. Each row becomes its reply

writes = operation ~= 'peek' and (operation ~= 'reserve' or limited == 0)
for i = 1, length do rows[i] = rows[i].kind.write(KEYS[i], rows[i]) end
if takes and taken >= 1e15 then taken = string.format('%d', taken) end
return {limited, wait, rows, taken}
