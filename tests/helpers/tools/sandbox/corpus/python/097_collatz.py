# Which start below 3,000 gives the longest Collatz sequence? Show some sequences and a histogram of lengths.
from collections import Counter

lengths = {1: 1}


def length(n):
    path = []
    while n not in lengths:
        path.append(n)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
    base = lengths[n]
    for offset, value in enumerate(reversed(path), 1):
        lengths[value] = base + offset
    return lengths[path[0]] if path else base


longest = max(range(1, 3000), key=length)
print(longest, length(longest), max(lengths), len(lengths))
for start in (6, 7, 27):
    n, seq = start, [start]
    while n != 1:
        n = [n // 2, 3 * n + 1][n & 1]
        seq.append(n)
    shown = " ".join(map(str, seq if len(seq) < 20 else [*seq[:6], "...", *seq[-4:]]))
    print(f"{start}: {len(seq)} steps, peak {max(seq)}: {shown}")
histogram = Counter(length(n) // 25 * 25 for n in range(1, 3000))
for low in sorted(histogram):
    print(f"{low:>3}-{low + 24:<3} {histogram[low]:>4} {'*' * (histogram[low] // 20)}")
