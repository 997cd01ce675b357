#!/bin/bash
# Use strict mode; the script should stop at the command that fails.
set -euo pipefail

echo "start"
value=$(echo 42)
echo "value: $value"
if grep -q missing <<< "some text"; then
  echo "found"
else
  echo "not found, which is fine in an if"
fi
false || echo "handled"
count=$(printf 'a\nb\n' | grep -c z || true)
echo "count: $count"
cat does-not-exist.txt | sort
echo "never reached"
