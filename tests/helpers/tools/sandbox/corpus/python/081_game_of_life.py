# Run Conway's game of life: a glider for 8 steps, and find out when this blinker and block repeat.
from collections import Counter


def step(cells):
    near = Counter((x + dx, y + dy) for x, y in cells for dx in (-1, 0, 1) for dy in (-1, 0, 1) if (dx, dy) != (0, 0))
    return {c for c, n in near.items() if n == 3 or (n == 2 and c in cells)}


def parse(text):
    return {(x, y) for y, row in enumerate(text.split("/")) for x, ch in enumerate(row) if ch == "#"}


def show(cells):
    xs, ys = zip(*cells)
    for y in range(min(ys), max(ys) + 1):
        print("".join("#" if (x, y) in cells else "." for x in range(min(xs), max(xs) + 1)))


glider = parse(".#./..#/###")
state = glider
for n in range(8):
    state = step(state)
    if n % 4 == 3:
        print("after", n + 1)
        show(state)
print("moved:", state == {(x + 2, y + 2) for x, y in glider})

for name, text in {"blinker": "###", "block": "##/##", "r-pentomino": ".##/##./.#.", "toad": ".###/###."}.items():
    cells, seen, n = parse(text), {}, 0
    while frozenset(cells) not in seen and n < 60:
        seen[frozenset(cells)] = n
        cells, n = step(cells), n + 1
    period = n - seen[frozenset(cells)] if frozenset(cells) in seen else None
    print(f"{name:<12} period={period} population={len(cells)} steps={n}")
