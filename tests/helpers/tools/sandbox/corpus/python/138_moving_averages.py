# Compute simple, weighted and exponential moving averages of prices, and mark the crossings.
from itertools import pairwise, tee

prices = [22.27, 22.19, 22.08, 22.17, 22.18, 22.13, 22.23, 22.43, 22.24, 22.29, 22.15, 22.39, 22.38, 22.61, 23.36, 24.05, 23.75, 23.83, 23.95, 23.63]


def sma(values, n):
    return [None] * (n - 1) + [sum(values[i - n + 1:i + 1]) / n for i in range(n - 1, len(values))]


def wma(values, n):
    weights = range(1, n + 1)
    return [None] * (n - 1) + [
        sum(w * v for w, v in zip(weights, values[i - n + 1:i + 1])) / sum(weights) for i in range(n - 1, len(values))
    ]


def ema(values, n):
    k, out = 2 / (n + 1), [values[0]]
    for v in values[1:]:
        out.append(v * k + out[-1] * (1 - k))
    return out


fast, slow, weighted, exponential = sma(prices, 3), sma(prices, 8), wma(prices, 5), ema(prices, 5)
fmt = lambda v: f"{v:10.5f}" if v is not None else " " * 9 + "-"
for i, row in enumerate(zip(prices, fast, slow, weighted, exponential)):
    mark = ""
    if i and slow[i - 1] is not None and (fast[i] > slow[i]) != (fast[i - 1] > slow[i - 1]):
        mark = " <- up" if fast[i] > slow[i] else " <- down"
    print(f"{i:>2}" + "".join(map(fmt, row)) + mark)
returns = [b / a - 1 for a, b in pairwise(prices)]
print(f"best {max(returns):+.3%} worst {min(returns):+.3%} total {prices[-1] / prices[0] - 1:+.3%}")
peak = drawdown = 0.0
for p in prices:
    peak = max(peak, p)
    drawdown = max(drawdown, (peak - p) / peak)
print(f"max drawdown {drawdown:.4%}", [round(x + y, 2) for x, y in zip(*tee(prices[:3]))])
