# Find the longest common subsequence, substring, and increasing subsequence.
from bisect import bisect_left


def lcs(a, b):
    table = [[""] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + x if x == y else max(table[i][j + 1], table[i + 1][j], key=len)
    return table[-1][-1]


def substring(a, b):
    best = ""
    for i in range(len(a)):
        for j in range(i + len(best) + 1, len(a) + 1):
            if a[i:j] not in b:
                break
            best = a[i:j]
    return best


def increasing(values):
    tails, positions, previous = [], [], [None] * len(values)
    for i, v in enumerate(values):
        at = bisect_left(tails, v)
        previous[i] = positions[at - 1] if at else None
        tails[at:at + 1], positions[at:at + 1] = [v], [i]
    result, i = [], positions[-1]
    while i is not None:
        result.append(values[i])
        i = previous[i]
    return result[::-1]


for a, b in [("AGGTAB", "GXTXAYB"), ("programming", "gaming"), ("abc", "xyz")]:
    print(a, b, repr(lcs(a, b)), repr(substring(a, b)))
print(increasing([10, 9, 2, 5, 3, 7, 101, 18, 4, 20, 6]))
text = "banana bandana"
print(max((text[i:j] for i in range(len(text)) for j in range(i, len(text) + 1) if text.count(text[i:j]) > 1), key=len))
