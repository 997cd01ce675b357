#!/bin/bash
# Use until, break, continue and nested loops: find the first number divisible by 1 to 10.
n=2520 steps=0
until (( n % 11 == 0 )); do
  n=$((n + 2520)); steps=$((steps + 1))
done
echo "n=$n after $steps steps"
for i in 1 2 3 4 5 6 7 8; do
  [ $((i % 2)) -eq 0 ] && continue
  [ $i -gt 5 ] && break
  echo "odd $i"
done
for i in {1..3}; do
  for j in {1..3}; do
    (( i == 2 && j == 2 )) && continue 2
    (( i == 3 )) && break 2
    echo "$i,$j"
  done
done
while :; do
  ((k++ >= 4)) && break
done
echo "k=$k"
until [ -e flag ]; do echo "making flag"; touch flag; done
x=27; c=0; while ((x != 1)); do ((x = x % 2 ? 3 * x + 1 : x / 2, c++)); done; echo "collatz $c"
