# Compute p50, p90, p95 and p99 of latencies per endpoint, by nearest rank and by interpolation.
import math
from collections import defaultdict

samples = [(("/home", "/search", "/api")[i % 3], (i * i * 31 + 17 * i) % 997 / 10) for i in range(400)]


def nearest_rank(values, p):
    return values[max(0, math.ceil(p / 100 * len(values)) - 1)]


def interpolated(values, p):
    at = (len(values) - 1) * p / 100
    low, part = int(at), at % 1
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * part


groups = defaultdict(list)
for path, ms in samples:
    groups[path].append(ms)
print(f"{'path':<10}{'n':>5}" + "".join(f"{'p' + str(p):>9}" for p in (50, 90, 95, 99)) + f"{'max':>9}")
for path in sorted(groups):
    values = sorted(groups[path])
    print(f"{path:<10}{len(values):>5}" + "".join(f"{nearest_rank(values, p):>9.1f}" for p in (50, 90, 95, 99)) + f"{values[-1]:>9.1f}")
    print(f"{'':<15}" + "".join(f"{interpolated(values, p):>9.3f}" for p in (50, 90, 95, 99)))
slow = {path: sum(v > 90 for v in values) / len(values) for path, values in groups.items()}
print({k: f"{v:.2%}" for k, v in sorted(slow.items(), key=lambda kv: -kv[1])})
apdex = {p: round((sum(v <= 25 for v in vs) + sum(25 < v <= 100 for v in vs) / 2) / len(vs), 4) for p, vs in sorted(groups.items())}
print(apdex)
