# Here are our sales as CSV. What is the revenue per region, and which region sold most?
import csv
import io
from collections import defaultdict

DATA = """region,product,units,price
North,Widget,12,4.50
South,Widget,7,4.50
North,Gadget,3,19.99
East,Gadget,11,19.99
South,Doohickey,25,1.25
East,Widget,2,4.50
West,Doohickey,40,1.25
"""

revenue = defaultdict(float)
units = defaultdict(int)
for row in csv.DictReader(io.StringIO(DATA)):
    revenue[row["region"]] += int(row["units"]) * float(row["price"])
    units[row["region"]] += int(row["units"])

print(f"{'Region':<10}{'Units':>8}{'Revenue':>12}")
print("-" * 30)
for region, total in sorted(revenue.items(), key=lambda item: item[1], reverse=True):
    print(f"{region:<10}{units[region]:>8}{total:>12,.2f}")
print("-" * 30)
print(f"{'Total':<10}{sum(units.values()):>8}{sum(revenue.values()):>12,.2f}")
best = max(revenue, key=revenue.get)
print(f"\nTop region: {best} with {revenue[best] / sum(revenue.values()):.1%} of revenue")
