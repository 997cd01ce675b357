# Fill the missing days of this series with zeros and with interpolation, and sum it by week and month.
from datetime import date, timedelta
from itertools import groupby

series = {date(2024, 2, 26): 10.0, date(2024, 2, 28): 16.0, date(2024, 3, 1): 4.0, date(2024, 3, 5): 20.0, date(2024, 3, 6): 1.5}


def days(first, last):
    while first <= last:
        yield first
        first += timedelta(1)


def interpolate(series):
    known = sorted(series)
    for a, b in zip(known, known[1:]):
        span = (b - a).days
        for i in range(span):
            yield a + timedelta(days=i), series[a] + (series[b] - series[a]) * i / span
    yield known[-1], series[known[-1]]


full = {d: series.get(d, 0.0) for d in days(min(series), max(series))}
smooth = dict(interpolate(series))
for d in full:
    print(f"{d:%a %d %b} {full[d]:5.1f} {smooth[d]:7.3f}{' *' if d in series else ''}")
for key, label in ((lambda d: d.isocalendar()[:2], "week"), (lambda d: (d.year, d.month), "month")):
    for k, group in groupby(full, key=key):
        group = list(group)
        print(label, k, len(group), sum(full[d] for d in group), round(sum(smooth[d] for d in group), 4))
print(len(full) - len(series), "days filled")
