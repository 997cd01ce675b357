# Estimate pi with a Monte Carlo simulation, using a fixed seed, and show how it converges.
import math
import random

rng = random.Random(42)
inside = 0
checkpoints = {100, 1_000, 10_000, 50_000}
for i in range(1, 50_001):
    x, y = rng.random(), rng.random()
    if x * x + y * y <= 1.0:
        inside += 1
    if i in checkpoints:
        estimate = 4 * inside / i
        print(f"n={i:>6,}  pi≈{estimate:.5f}  error={abs(estimate - math.pi):.5f}")

random.seed(7)
print([random.randint(1, 6) for _ in range(10)])
deck = list("ABCDEFGH")
random.shuffle(deck)
print("".join(deck), random.choice(deck), random.sample(range(100), 4))
print(round(random.gauss(0, 1), 6), round(random.uniform(5, 10), 6))
print(random.choices(["red", "green", "blue"], weights=[5, 3, 1], k=6))
