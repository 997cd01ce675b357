# Give letter grades by cut-offs with bisect, and keep a sorted list of scores.
from bisect import bisect, bisect_left, bisect_right, insort

cutoffs, letters = [60, 70, 80, 90], "FDCBA"
scores = [33, 99, 77, 70, 89, 90, 100, 59.9]
print([letters[bisect(cutoffs, s)] for s in scores])

ranking = []
for s in scores:
    insort(ranking, s)
print(ranking)

data = [1, 3, 3, 3, 5, 8]
print(bisect_left(data, 3), bisect_right(data, 3), bisect_right(data, 3) - bisect_left(data, 3), bisect_left(data, 4))


def nearest(values, x):
    i = bisect_left(values, x)
    return min(values[max(0, i - 1):i + 1], key=lambda v: abs(v - x))


print([nearest(data, x) for x in (-5, 2, 4.1, 6.6, 100)])
people = [("ann", 20), ("bob", 30), ("cat", 40)]
print(bisect(people, 29, key=lambda p: p[1]))
insort(people, ("dan", 35), key=lambda p: p[1])
print(people)
