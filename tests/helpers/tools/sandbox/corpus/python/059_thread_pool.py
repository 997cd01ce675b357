# Find the primes in several ranges in parallel with a thread pool, and handle one failing job.
from concurrent.futures import ThreadPoolExecutor, as_completed


def primes(span):
    low, high = span
    if low > high:
        raise ValueError(f"empty span {span}")
    return [n for n in range(max(2, low), high) if all(n % d for d in range(2, int(n**0.5) + 1))]


spans = [(0, 50), (1000, 1050), (5000, 5040), (9, 3)]
with ThreadPoolExecutor(max_workers=3) as pool:
    futures = {pool.submit(primes, span): span for span in spans}
    results, failures = {}, {}
    for future in as_completed(futures):
        span = futures[future]
        if (error := future.exception()) is not None:
            failures[span] = error
        else:
            results[span] = future.result()
    lengths = list(pool.map(lambda s: len(s) ** 2, ["a", "bbb", "cc"]))

for span in sorted(results):
    print(span, len(results[span]), results[span][-3:])
print({k: f"{type(e).__name__}: {e}" for k, e in failures.items()})
print(lengths)
