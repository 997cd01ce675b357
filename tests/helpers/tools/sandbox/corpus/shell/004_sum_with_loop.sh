#!/bin/bash
# Add the numbers from 1 to 100, the even ones, and the squares, in several ways.
sum=0
for i in $(seq 1 100); do
  sum=$((sum + i))
done
echo "sum: $sum"

even=0
for ((i = 2; i <= 100; i += 2)); do
  ((even += i))
done
echo "even: $even"

i=1 squares=0
while [ $i -le 10 ]; do
  squares=$((squares + i * i))
  i=$((i + 1))
done
echo "squares: $squares"
echo "by awk: $(seq 100 | awk '{s += $1} END {print s}')"
echo "by paste and bc: $(seq -s+ 1 100 | bc)"
echo "formula: $((100 * 101 / 2))"
