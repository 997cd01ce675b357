# Sort employees by several keys, using the stability of the sort, and rank them with ties.
from functools import cmp_to_key
from itertools import groupby

staff = [
    ("Ann", "dev", 5200), ("Bob", "ops", 4100), ("Cid", "dev", 5200), ("Dee", "ops", 4700),
    ("Eve", "dev", 6100), ("Fay", "hr", 4100), ("Gus", "ops", 4700),
]

rows = list(staff)
rows.sort(key=lambda r: r[0], reverse=True)
rows.sort(key=lambda r: r[2], reverse=True)
rows.sort(key=lambda r: r[1])
for row in rows:
    print("{:<4} {:<4} {}".format(*row))


def compare(a, b):
    if a[2] != b[2]:
        return b[2] - a[2]
    return (a[0] > b[0]) - (a[0] < b[0])


rank = 0
for salary, group in groupby(sorted(staff, key=cmp_to_key(compare)), key=lambda r: r[2]):
    group = list(group)
    print(rank + 1, salary, [g[0] for g in group])
    rank += len(group)
print([n for n, *_ in sorted(staff, key=lambda r: r[2])])
print(sorted([(1, "b"), (1, "a"), (0, "z")]), sorted({"b": 1, "a": 2}), sorted("hello", reverse=True))
try:
    sorted([1, "a", None])
except TypeError as e:
    print("TypeError:", e)
