# Compute large Fibonacci numbers with a cache and show how often the cache was hit.
from functools import lru_cache, reduce


@lru_cache(maxsize=None)
def fib(n: int) -> int:
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)


for n in (10, 50, 90, 100):
    print(f"fib({n}) = {fib(n):,}")

info = fib.cache_info()
print(f"hits={info.hits} misses={info.misses} size={info.currsize}")

ratio = fib(91) / fib(90)
print(f"ratio -> {ratio:.15f}")
print("sum of first 20:", reduce(lambda a, b: a + b, map(fib, range(20))))
print("digits of fib(300):", len(str(fib(300))), "digit sum:", sum(map(int, str(fib(300)))))
