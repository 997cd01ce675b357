# Run several simulated downloads at the same time with asyncio, with a limit and a timeout.
import asyncio


async def download(name, steps, limit, log):
    async with limit:
        log.append(f"start {name}")
        for _ in range(steps):
            await asyncio.sleep(0)
        if name == "bad":
            raise RuntimeError("bad url")
        log.append(f"done {name}")
        return name, steps * 100


async def ticker(n):
    for i in range(n):
        yield i * i
        await asyncio.sleep(0)


async def main():
    limit, log = asyncio.Semaphore(2), []
    jobs = [download(n, s, limit, log) for n, s in [("a", 3), ("b", 1), ("bad", 1), ("c", 2)]]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    for result in results:
        print(repr(result))
    print(log[:2], sorted(log))
    print([v async for v in ticker(4)])
    try:
        await asyncio.wait_for(asyncio.sleep(10), timeout=0.01)
    except asyncio.TimeoutError:
        print("timed out")
    task = asyncio.create_task(asyncio.sleep(10, result="never"))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled", task.cancelled())
    return sum(r[1] for r in results if not isinstance(r, Exception))


print("bytes:", asyncio.run(main()))
