# What are the odds of each sum of dice, exactly and simulated with a seed?
import random
from collections import Counter
from fractions import Fraction

random.seed(99)
rolls = Counter(random.randint(1, 6) + random.randint(1, 6) for _ in range(5000))
exact = Counter(a + b for a in range(1, 7) for b in range(1, 7))
for total in range(2, 13):
    p = Fraction(exact[total], 36)
    print(f"{total:>2} {str(p):>5} {float(p):7.4f} {rolls[total] / 5000:7.4f} {'*' * exact[total]}")
mean = sum(k * v for k, v in rolls.items()) / 5000
print("simulated mean", mean, "most common", rolls.most_common(2))
streak = best = 0
for _ in range(2000):
    streak = streak + 1 if random.random() < 0.5 else 0
    best = max(best, streak)
print("longest streak of heads:", best, "| next:", random.randrange(0, 1000, 5), random.getrandbits(20), f"{random.triangular(0, 10, 3):.6f}")
walk = [0]
for _ in range(100):
    walk.append(walk[-1] + random.choice((-1, 1)))
print("random walk ends at", walk[-1], "range", min(walk), max(walk), "returns to 0:", walk.count(0) - 1)
