-- Redis_exporter does not know INFO funnel. This script gives it the counts:
--
--	redis_exporter -script funnel.lua -redis.addr redis://localhost:6379
--
-- exports them as redis_script_values{key="funnel_allowed", ...}. The value with {key="funnel_loaded"} is 1 if the module
-- is loaded, and otherwise 0.

local info = redis.call('INFO', 'funnel')
local reply = {'funnel_loaded', info == '' and '0' or '1'}
for field, count in info:gmatch('(funnel_%l+):(%d+)\r\n') do
    if field ~= 'funnel_commit' then
        reply[#reply + 1] = field
        reply[#reply + 1] = count
    end
end
return reply
