# Draw a histogram and a box plot of this data in plain text.
from statistics import quantiles

data = [23, 29, 20, 32, 23, 21, 33, 25, 27, 24, 28, 41, 36, 22, 26, 24, 35, 19, 25, 30, 55, 31, 27]


def histogram(values, bins=6, width=30):
    low, high = min(values), max(values)
    step = (high - low) / bins
    counts = [0] * bins
    for v in values:
        counts[min(int((v - low) / step), bins - 1)] += 1
    top = max(counts)
    for i, n in enumerate(counts):
        bar = "▇" * round(n / top * width)
        print(f"{low + i * step:5.1f} – {low + (i + 1) * step:5.1f} │{bar} {n}")


histogram(data)
q1, median, q3 = quantiles(data, n=4, method="inclusive")
low, high, scale = min(data), max(data), 50
place = lambda v: round((v - low) / (high - low) * scale)
line = [" "] * (scale + 1)
for i in range(place(low), place(high) + 1):
    line[i] = "-"
for i in range(place(q1), place(q3) + 1):
    line[i] = "="
for v, ch in ((low, "|"), (q1, "["), (median, "M"), (q3, "]"), (high, "|")):
    line[place(v)] = ch
print("".join(line))
print(q1, median, q3)
stems = {}
for v in sorted(data):
    stems.setdefault(v // 10, []).append(v % 10)
for stem, leaves in stems.items():
    print(stem, "|", *leaves)
