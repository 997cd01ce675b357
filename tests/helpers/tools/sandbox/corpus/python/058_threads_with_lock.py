# Count with four threads and a lock, and pass work to workers by a queue.
import queue
import threading

total = 0
lock = threading.Lock()


def count(n):
    global total
    for _ in range(n):
        with lock:
            total += 1


threads = [threading.Thread(target=count, args=(1000,), name=f"counter-{i}") for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("total:", total, [t.name for t in threads], any(t.is_alive() for t in threads))

jobs: "queue.Queue[int | None]" = queue.Queue()
results = {}


def worker():
    while (n := jobs.get()) is not None:
        with lock:
            results[n] = sum(d * d for d in range(n))
        jobs.task_done()


workers = [threading.Thread(target=worker, daemon=True) for _ in range(3)]
for w in workers:
    w.start()
for n in (10, 100, 1000, 5, 50):
    jobs.put(n)
jobs.join()
for _ in workers:
    jobs.put(None)
for w in workers:
    w.join()
print(dict(sorted(results.items())))

ready = threading.Event()
local = threading.local()
local.value = "main"
threading.Thread(target=lambda: (setattr(local, "value", "other"), ready.set())).start()
print(ready.wait(5), local.value)
