# Generate text in the style of this sample with a Markov chain and a fixed seed.
import random
from collections import defaultdict

SAMPLE = """the cat sat on the mat and the dog sat on the log while the bird sang in the tree
and the cat saw the bird and the dog saw the cat and the bird flew to the log"""

words = SAMPLE.split()
chain = defaultdict(list)
for a, b, c in zip(words, words[1:], words[2:]):
    chain[a, b].append(c)

rng = random.Random(11)
for _ in range(3):
    state = rng.choice(sorted(chain))
    out = list(state)
    while len(out) < 12 and chain.get(state):
        out.append(rng.choice(chain[state]))
        state = (out[-2], out[-1])
    print(" ".join(out).capitalize() + ".")

print(len(chain), max((len(set(v)), k) for k, v in chain.items()))
rows = {"sun": {"sun": 0.8, "rain": 0.2}, "rain": {"sun": 0.4, "rain": 0.6}}
p = {"sun": 1.0, "rain": 0.0}
for day in range(1, 31):
    p = {s: sum(p[o] * rows[o][s] for o in rows) for s in rows}
    if day in (1, 2, 5, 30):
        print(day, {k: round(v, 6) for k, v in p.items()})
