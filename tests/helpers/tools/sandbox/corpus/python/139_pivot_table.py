# Make a pivot table of sales by month and product with totals, from rows of text.
from collections import defaultdict

ROWS = """2024-01 apples 120
2024-01 pears 80
2024-02 apples 95
2024-02 figs 12.5
2024-03 pears 77.25
2024-01 apples 30
2024-03 figs 8"""

pivot = defaultdict(lambda: defaultdict(float))
for line in ROWS.splitlines():
    month, product, amount = line.split()
    pivot[month][product] += float(amount)

products = sorted({p for row in pivot.values() for p in row})
print("month   " + "".join(f"{p:>10}" for p in products) + f"{'total':>10}")
for month in sorted(pivot):
    row = pivot[month]
    cells = "".join(f"{row[p]:>10.2f}" if p in row else f"{'·':>10}" for p in products)
    print(f"{month:<8}{cells}{sum(row.values()):>10.2f}")
totals = {p: sum(pivot[m].get(p, 0) for m in pivot) for p in products}
print(f"{'sum':<8}" + "".join(f"{totals[p]:>10.2f}" for p in products) + f"{sum(totals.values()):>10.2f}")
shares = {p: round(100 * t / sum(totals.values()), 1) for p, t in totals.items()}
print(shares, sum(shares.values()), max(shares, key=shares.get))
print({m: max(r, key=lambda p: r[p]) for m, r in sorted(pivot.items())}, dict(pivot["2024-02"]), "2024-09" in pivot)
