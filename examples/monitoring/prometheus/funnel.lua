-- The counts of INFO funnel, for redis_exporter, which does not know them:
--
--	redis_exporter -script funnel.lua -redis.addr redis://localhost:6379
--
-- shows them as redis_script_values{key="funnel_allowed", ...}, and whether the module is
-- loaded as {key="funnel_loaded"}, 1 or 0.

local info = redis.call('INFO', 'funnel')
local reply = {'funnel_loaded', info == '' and '0' or '1'}
for field, count in info:gmatch('(funnel_%l+):(%d+)\r\n') do
    if field ~= 'funnel_commit' then
        reply[#reply + 1] = field
        reply[#reply + 1] = count
    end
end
return reply
