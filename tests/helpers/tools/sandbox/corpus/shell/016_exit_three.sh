#!/bin/sh
# Check that the needed files exist, report which do not, and exit with 3 if any is missing.
touch a.txt b.txt
missing=0
for f in a.txt b.txt c.txt d.txt; do
  if [ -f "$f" ]; then
    echo "ok      $f"
  else
    echo "MISSING $f" >&2
    missing=$((missing + 1))
  fi
done
echo "$missing missing"
[ "$missing" -eq 0 ] || exit 3
echo "all there"
