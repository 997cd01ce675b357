#!/bin/bash
# Write results to the screen and to files at the same time.
seq 1 5 | tee numbers.txt | awk '{s += $1} END {print "sum:", s}'
echo "appended" | tee -a numbers.txt > /dev/null
cat numbers.txt | wc -l | tr -d ' '
printf 'x\ny\n' | tee copy1 copy2 | tr a-z A-Z
cmp copy1 copy2 && echo same
seq 3 | tee >(wc -l | tr -d ' ' > count) | paste -sd, -
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -s count ] && break; sleep 0.02; done
cat count
{ echo out; echo err >&2; } 2>&1 | tee all.log | sort
