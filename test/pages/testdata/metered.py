import asyncio, redis, redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
class Redis(redis.asyncio.Redis):
    async def execute_command(self, *words):
        reply = await super().execute_command(*words)
        assert words[0] != "CL.REFUND" or reply[2][0][1] == words[2], f"{reply} answers another call than {words}"
        return reply
r = Redis(port=PORT, socket_timeout=2, retry=Retry(NoBackoff(), 0))
TEXT

async def ended(user, used, seconds, *commands, cancelled=60):
    async def work(meter):
        meter.used = used
        await asyncio.sleep(seconds)
        return "done"
    task = asyncio.create_task(metered(user, 500, work))
    await asyncio.sleep(0.1)
    for command in commands:
        await r.execute_command(command)
    asyncio.get_running_loop().call_later(cancelled, task.cancel)
    [result] = await asyncio.gather(task, return_exceptions=True)
    rows = (await r.execute_command("CL.PEEK", f"{{{user}}}:slots", 5, "SLOTS", 1, "other",
                                    f"{{{user}}}:minute", 90000, 90000, 31536000, 1))[2]
    print(f"{user}: {str(result) or type(result).__name__}, {rows[1][2]} remain, {rows[0][2]} free", flush=True)

async def main():
    await ended("refunded", 100, 7)  # longer than the ttl
    await ended("charged", 700, 0)
    await ended("lost", 100, 60, "DEL {lost}:slots")
    await ended("cancelled", 100, 60, "CLIENT PAUSE 3000", cancelled=2.4)  # while a renewal waits for its reply
    await r.execute_command("ZADD {taken}:slots 9e15 a 9e15 b 9e15 c 9e15 d 9e15 e")
    await ended("taken", 100, 0)
    await ended("denied", 100, 60, "ACL SETUSER default -cl.reserve")

asyncio.run(main())
