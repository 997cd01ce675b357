# Implement binary search in several variants, test them against linear search, and find a root by bisection.
def search(values, target):
    low, high = 0, len(values) - 1
    while low <= high:
        mid = (low + high) // 2
        if values[mid] == target:
            return mid
        if values[mid] < target:
            low = mid + 1
        else:
            high = mid - 1
    return -1


def first_true(low, high, predicate):
    while low < high:
        mid = (low + high) // 2
        low, high = (low, mid) if predicate(mid) else (mid + 1, high)
    return low


def rotated(values, target, low=0, high=None):
    high = len(values) - 1 if high is None else high
    if low > high:
        return None
    mid = (low + high) // 2
    if values[mid] == target:
        return mid
    left_sorted = values[low] <= values[mid]
    in_left = values[low] <= target < values[mid] if left_sorted else not (values[mid] < target <= values[high])
    return rotated(values, target, low, mid - 1) if in_left else rotated(values, target, mid + 1, high)


data = [n * n for n in range(40)]
print(search(data, 169), search(data, 170), search([], 1))
print(all(search(data, x) == (data.index(x) if x in data else -1) for x in range(-5, 1600)))
print(first_true(0, 10**18, lambda n: n * n >= 10**17), first_true(1, 100, lambda n: 2**n > 10**9))
print([rotated([6, 7, 9, 1, 2, 4], t) for t in (6, 9, 1, 4, 5)])
low, high, n = 1.0, 2.0, 0
while high - low > 1e-12:
    mid = (low + high) / 2
    low, high, n = (mid, high, n + 1) if mid**3 - mid - 2 < 0 else (low, mid, n + 1)
print(f"{low:.10f} in {n} steps")
