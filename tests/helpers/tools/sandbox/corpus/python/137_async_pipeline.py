# Build a producer and consumers with asyncio queues, events and a lock, and collect the results in order.
import asyncio


class Pool:
    async def __aenter__(self):
        self.opened = True
        return self

    async def __aexit__(self, *error):
        self.opened = False


async def produce(queue, n):
    for i in range(n):
        await queue.put(i)
    for _ in range(3):
        await queue.put(None)


async def consume(name, queue, results, lock):
    handled = 0
    while (item := await queue.get()) is not None:
        await asyncio.sleep(0)
        async with lock:
            results[item] = item**3
        handled += 1
    return handled


async def main():
    queue, results, lock = asyncio.Queue(maxsize=2), {}, asyncio.Lock()
    async with Pool() as pool:
        print("open", pool.opened)
        _, *handled = await asyncio.gather(produce(queue, 10), *(consume(n, queue, results, lock) for n in "abc"))
    print("open", pool.opened, sum(handled), dict(sorted(results.items())))

    started = asyncio.Event()

    async def waiter(k):
        await started.wait()
        return k * k

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(waiter(k)) for k in range(4)]
        started.set()
    print([t.result() for t in tasks])
    done, pending = await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0, "x"))}, timeout=1)
    print(done.pop().result(), len(pending), await asyncio.to_thread(pow, 2, 10))
    return [x async for x in agen() if x % 2]


async def agen():
    for i in range(6):
        yield i


print(asyncio.run(main()))
