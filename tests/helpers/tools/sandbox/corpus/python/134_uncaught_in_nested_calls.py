# Compute ratios of these measurements; it is meant to stop with the ZeroDivisionError of the third.
import sys

measurements = [("a", 10, 4), ("b", 7, 2), ("c", 5, 0), ("d", 1, 1)]


class Report:
    def __init__(self):
        self.lines = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        print(f"report has {len(self.lines)} lines, error: {kind.__name__ if kind else None}")
        return False

    def add(self, name, value):
        self.lines.append(f"{name}={value}")
        print(self.lines[-1])


def ratio(a, b):
    return a / b


def process(report, rows):
    for name, a, b in rows:
        try:
            report.add(name, ratio(a, b))
        finally:
            print(f"checked {name}", file=sys.stderr)


with Report() as report:
    process(report, measurements)
print("not reached")
