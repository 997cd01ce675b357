# Compute the edit distance of word pairs with memoisation, and show the edits.
from functools import cache


def edits(a, b):
    @cache
    def best(i, j):
        if i == 0 or j == 0:
            return i + j
        return min(best(i - 1, j) + 1, best(i, j - 1) + 1, best(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    steps, i, j = [], len(a), len(b)
    while i or j:
        if i and j and best(i, j) == best(i - 1, j - 1) + (a[i - 1] != b[j - 1]):
            if a[i - 1] != b[j - 1]:
                steps.append(f"{a[i - 1]}→{b[j - 1]}")
            i, j = i - 1, j - 1
        elif i and best(i, j) == best(i - 1, j) + 1:
            steps.append(f"-{a[i - 1]}")
            i -= 1
        else:
            steps.append(f"+{b[j - 1]}")
            j -= 1
    return best(len(a), len(b)), steps[::-1]


for a, b in [("kitten", "sitting"), ("flaw", "lawn"), ("", "abc"), ("intention", "execution"), ("same", "same")]:
    distance, steps = edits(a, b)
    print(f"{a or '∅':<10} {b:<10} {distance}  {' '.join(steps)}")

words = ["python", "pithon", "java", "pythons", "jython"]
print(sorted(words, key=lambda w: (edits("python", w)[0], w)))
