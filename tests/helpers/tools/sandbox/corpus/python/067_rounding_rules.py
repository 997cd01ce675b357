# Compare banker's rounding with rounding half up, for cents and for negative digits.
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
import math

print([round(x) for x in (0.5, 1.5, 2.5, 3.5, -0.5, -1.5)])
print([round(x, 2) for x in (2.675, 1.005, 0.125, 0.375, 1.115)])
print(round(1234.567, -2), round(1250, -2), round(1350, -2), round(5, 0), round(5.0), type(round(2.0, 0)).__name__)


def half_up(x, digits=0):
    factor = 10**digits
    return math.floor(x * factor + 0.5) / factor


print([half_up(x) for x in (0.5, 1.5, 2.5, -0.5)], half_up(2.675, 2))
for text in ("2.675", "1.005", "-2.5", "0.125"):
    d = Decimal(text)
    print(text, *(d.quantize(Decimal("0.01"), r) for r in (ROUND_HALF_EVEN, ROUND_HALF_UP, ROUND_DOWN)))
shares = [100 / 3] * 3
cents = [math.floor(s * 100) for s in shares]
cents[0] += 10000 - sum(cents)
print([c / 100 for c in cents], sum(cents) / 100)
print(Decimal(2.675), round(Decimal("2.5")), round(Decimal("2.675"), 2))
