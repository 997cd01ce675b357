#!/bin/bash
# Prepare data in the shell, compute with Python, and go on with the result in the shell.
printf '%s\n' 3 1 4 1 5 9 2 6 > numbers.txt
python3 - numbers.txt <<'EOF'
import sys
from statistics import mean, median
numbers = [int(line) for line in open(sys.argv[1])]
print(f"n={len(numbers)} mean={mean(numbers):.3f} median={median(numbers)}")
EOF
sum=$(python3 -c 'import sys; print(sum(map(int, sys.stdin)))' < numbers.txt)
echo "sum: $sum, doubled: $((sum * 2))"
python3 -c 'import json; print(json.dumps({"a": [1, 2], "b": None}))' | tr -d ' '
python3 -c 'raise SystemExit(5)' || echo "python ended with $?"
