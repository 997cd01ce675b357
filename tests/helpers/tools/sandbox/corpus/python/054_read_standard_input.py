# Sum the numbers on standard input, one a line; if there are none, use the built-in sample.
import sys

SAMPLE = """12
7.5

# a comment
-3
oops
1e2
"""

data = sys.stdin.read()
if not data.strip():
    print("no input, using the sample", file=sys.stderr)
    data = SAMPLE

total, good, bad = 0.0, 0, []
for number, line in enumerate(data.splitlines(), start=1):
    line = line.split("#", 1)[0].strip()
    if not line:
        continue
    try:
        total += float(line)
        good += 1
    except ValueError:
        bad.append((number, line))

print(f"{good} numbers, total {total:g}, mean {total / good:.4f}")
for number, line in bad:
    print(f"line {number}: cannot read {line!r}")
