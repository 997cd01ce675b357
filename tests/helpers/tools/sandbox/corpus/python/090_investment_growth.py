# How does a monthly saving plan grow, and when do I reach 100,000? Also compute the internal rate of return.
import math


def future(monthly, rate, months, start=0.0):
    value = start
    for _ in range(months):
        value = value * (1 + rate / 12) + monthly
    return value


for rate in (0.0, 0.03, 0.05, 0.07):
    row = [future(250, rate, 12 * y) for y in (1, 5, 10, 20)]
    print(f"{rate:>4.0%} " + " ".join(f"{v:>12,.2f}" for v in row))

months = 0
while future(250, 0.05, months) < 100_000:
    months += 1
print(f"100,000 after {months // 12} years and {months % 12} months")
print(f"doubling at 5%: {math.log(2) / math.log(1.05):.3f} years, rule of 72: {72 / 5}")
print(f"effective rate of 12% monthly: {(1 + 0.12 / 12) ** 12 - 1:.6%}, continuous: {math.expm1(0.12):.6%}")


def npv(rate, flows):
    return sum(f / (1 + rate) ** t for t, f in enumerate(flows))


flows = [-1000, 200, 300, 400, 350]
low, high = -0.5, 1.0
for _ in range(80):
    mid = (low + high) / 2
    low, high = (mid, high) if npv(mid, flows) > 0 else (low, mid)
print(f"NPV at 8%: {npv(0.08, flows):.4f}, IRR: {mid:.6%}, check {abs(npv(mid, flows)) < 1e-9}")
