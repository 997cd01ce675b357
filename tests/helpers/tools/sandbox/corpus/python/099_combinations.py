# List the permutations and combinations of these options, and count poker hands by exact probability.
from fractions import Fraction
from itertools import chain, combinations, combinations_with_replacement, compress, permutations, product, zip_longest
from math import comb, factorial

print(["".join(p) for p in permutations("abc")])
print(list(combinations([1, 2, 3, 4], 2)), list(combinations_with_replacement("xy", 3)))
print([f"{a}{b}" for a, b in product("AB", range(3))], len(list(product([0, 1], repeat=8))))
items = ["salt", "oil", "egg"]
print(list(chain.from_iterable(combinations(items, r) for r in range(len(items) + 1))))
print(list(compress("ABCDEF", [1, 0, 1, 0, 1, 1])), list(zip_longest("ab", [1], fillvalue="-")))
hands = comb(52, 5)
counts = {
    "four of a kind": 13 * 48,
    "full house": 13 * comb(4, 3) * 12 * comb(4, 2),
    "flush": 4 * comb(13, 5) - 40,
    "one pair": 13 * comb(4, 2) * comb(12, 3) * 4**3,
}
for name, n in counts.items():
    p = Fraction(n, hands)
    print(f"{name:<15}{n:>8} {str(p):>15} {float(p):.6%}")
sums = {}
for dice in product(range(1, 7), repeat=3):
    sums[sum(dice)] = sums.get(sum(dice), 0) + 1
print(sums, Fraction(sums[10], 216))
print(1 - float(Fraction(comb(365, 23) * factorial(23), 365**23)))
