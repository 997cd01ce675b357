# Scale a recipe for 4 people to 7, with exact fractions like 1 3/4 cups.
from fractions import Fraction

recipe = {"flour (cups)": "2 1/2", "sugar (cups)": "3/4", "eggs": "3", "milk (cups)": "1 1/3", "salt (tsp)": "1/8"}


def parse(text):
    return sum(Fraction(part) for part in text.split())


def show(value):
    whole, rest = divmod(value, 1)
    if rest == 0:
        return str(whole)
    return f"{whole} {rest}" if whole else str(rest)


factor = Fraction(7, 4)
for name, amount in recipe.items():
    scaled = parse(amount) * factor
    print(f"{name:<14}{amount:>6} -> {show(scaled):<8} ({float(scaled):.4f})")

print(Fraction("0.125"), Fraction(0.5), Fraction(3.14159).limit_denominator(1000))
print(sum(Fraction(1, n) for n in range(1, 11)))
print(Fraction(7, 3) // 1, Fraction(-7, 3) % 1, Fraction(2, 3) ** -2, round(Fraction(5, 2)))
