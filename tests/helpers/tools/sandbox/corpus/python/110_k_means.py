# Cluster these points into three groups with k-means and a seed, and print sizes, centres and inertia.
import math
import random

rng = random.Random(3)
points = [(rng.gauss(cx, 0.6), rng.gauss(cy, 0.6)) for cx, cy in ((0, 0), (5, 5), (0, 6)) for _ in range(25)]


def centre(group):
    xs, ys = zip(*group)
    return sum(xs) / len(xs), sum(ys) / len(ys)


def k_means(points, k, seed):
    centres = random.Random(seed).sample(points, k)
    for rounds in range(1, 100):
        groups = [[] for _ in range(k)]
        for p in points:
            groups[min(range(k), key=lambda i: math.dist(p, centres[i]))].append(p)
        new = [centre(g) if g else c for g, c in zip(groups, centres)]
        if new == centres:
            break
        centres = new
    inertia = sum(math.dist(p, c) ** 2 for g, c in zip(groups, centres) for p in g)
    return inertia, rounds, sorted((c, len(g)) for c, g in zip(centres, groups))


for k in (1, 2, 3, 4):
    inertia, rounds, _ = min((k_means(points, k, seed) for seed in range(6)), key=lambda r: r[0])
    print(f"k={k} inertia={inertia:9.3f}")
inertia, rounds, clusters = min(k_means(points, 3, seed) for seed in range(6))
for (x, y), n in clusters:
    print(f"({x:6.3f}, {y:6.3f}) n={n}")
