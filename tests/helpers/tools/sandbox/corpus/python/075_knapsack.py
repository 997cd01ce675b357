# Which things should I pack for at most 10 kg so that their value is highest? Use dynamic programming.
items = [("tent", 4, 500), ("stove", 2, 150), ("food", 3, 420), ("camera", 1, 200), ("books", 5, 100), ("rope", 2, 180)]
LIMIT = 10

best = [[0] * (LIMIT + 1) for _ in range(len(items) + 1)]
for i, (_, weight, value) in enumerate(items, 1):
    for w in range(LIMIT + 1):
        best[i][w] = best[i - 1][w]
        if weight <= w:
            best[i][w] = max(best[i][w], best[i - 1][w - weight] + value)

chosen, w = [], LIMIT
for i in range(len(items), 0, -1):
    if best[i][w] != best[i - 1][w]:
        chosen.append(items[i - 1])
        w -= items[i - 1][1]

for row in best[1:]:
    print(" ".join(f"{v:>4}" for v in row))
print("value", best[-1][LIMIT], "weight", sum(i[1] for i in chosen), "pack", sorted(i[0] for i in chosen))

coins, amount = [1, 5, 12, 25], 39
ways = [1] + [0] * amount
least = [0] + [float("inf")] * amount
for c in coins:
    for a in range(c, amount + 1):
        ways[a] += ways[a - c]
        least[a] = min(least[a], least[a - c] + 1)
print("ways", ways[amount], "fewest coins", least[amount])
