# Write a cache with an expiry driven by a given clock, an object pool with weak references, and context variables.
import contextvars
import gc
import weakref
from functools import cached_property


class Clock:
    now = 0.0

    def advance(self, seconds):
        self.now += seconds


class TTLCache:
    def __init__(self, ttl, clock):
        self.ttl, self.clock, self.store, self.loads = ttl, clock, {}, 0

    def get(self, key, load):
        value, expires = self.store.get(key, (None, -1))
        if expires <= self.clock.now:
            self.loads += 1
            value = load(key)
            self.store[key] = value, self.clock.now + self.ttl
        return value


class Report:
    def __init__(self, rows):
        self.rows = rows

    @cached_property
    def total(self):
        print("computing")
        return sum(self.rows)


clock = Clock()
cache = TTLCache(10, clock)
for wait in (0, 5, 4, 2, 10, 1):
    clock.advance(wait)
    print(f"t={clock.now:<5} value={cache.get('k', lambda k: k * 2)} loads={cache.loads}")

report = Report([1, 2, 3])
print(report.total, report.total, "total" in vars(report))
pool = weakref.WeakValueDictionary(r=report)
gone = weakref.ref(report, lambda _: print("collected"))
print(gone() is report, len(pool))
del report
gc.collect()
print(gone(), len(pool))

user = contextvars.ContextVar("user", default="nobody")
token = user.set("ann")
context = contextvars.copy_context()
user.reset(token)
print(user.get(), context.run(user.get), context[user])
