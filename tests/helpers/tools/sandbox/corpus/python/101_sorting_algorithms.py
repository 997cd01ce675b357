# Implement bubble, insertion, merge and quick sort, compare their numbers of comparisons, and check with a counting sort.
comparisons = 0


def less(a, b):
    global comparisons
    comparisons += 1
    return a < b


def bubble(v):
    for end in range(len(v) - 1, 0, -1):
        swapped = False
        for i in range(end):
            if less(v[i + 1], v[i]):
                v[i], v[i + 1], swapped = v[i + 1], v[i], True
        if not swapped:
            break
    return v


def insertion(v):
    for i in range(1, len(v)):
        j = i
        while j and less(v[j], v[j - 1]):
            v[j], v[j - 1] = v[j - 1], v[j]
            j -= 1
    return v


def merge(v):
    if len(v) < 2:
        return v
    a, b, out = merge(v[: len(v) // 2]), merge(v[len(v) // 2 :]), []
    while a and b:
        out.append((b if less(b[0], a[0]) else a).pop(0))
    return out + a + b


def quick(v):
    if len(v) < 2:
        return v
    pivot, *rest = v
    small = [x for x in rest if less(x, pivot)]
    return quick(small) + [pivot] + quick([x for x in rest if x >= pivot])


data = [(n * 7919 + 13) % 101 for n in range(61)]
for sort in (bubble, insertion, merge, quick):
    comparisons = 0
    result = sort(list(data))
    print(f"{sort.__name__:<10} ok={result == sorted(data)} comparisons={comparisons}")
counts = [0] * 101
for n in data:
    counts[n] += 1
print([n for n, c in enumerate(counts) for _ in range(c)] == sorted(data), data[:5])
