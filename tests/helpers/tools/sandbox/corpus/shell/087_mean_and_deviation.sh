#!/bin/bash
# Compute mean, variance and standard deviation of numbers with awk and check with bc.
data="2 4 4 4 5 5 7 9"
echo "$data" | tr ' ' '\n' | awk '{ s += $1; q += $1 ^ 2; n++ } END { m = s / n; printf "n=%d mean=%.2f var=%.4f sd=%.4f\n", n, m, q / n - m * m, sqrt(q / n - m * m) }'
n=0 sum=0
for x in $data; do sum=$((sum + x)); n=$((n + 1)); done
mean=$(echo "scale=4; $sum / $n" | bc)
dev=0
for x in $data; do dev=$(echo "scale=4; $dev + ($x - $mean)^2" | bc); done
echo "mean $mean, sum of squares $dev, sample sd $(echo "scale=6; sqrt($dev / ($n - 1))" | bc)"
sorted=($(printf '%s\n' $data | sort -n))
if (( n % 2 )); then median=${sorted[n / 2]}; else median=$(echo "scale=1; (${sorted[n / 2 - 1]} + ${sorted[n / 2]}) / 2" | bc); fi
echo "median $median, mode $(printf '%s\n' $data | sort | uniq -c | sort -rn | awk 'NR == 1 {print $2}'), range $((sorted[-1] - sorted[0]))"
x=1000; for y in 1 2 3; do x=$(echo "scale=2; $x * 1.05 / 1" | bc); echo "year $y: $x"; done
awk 'BEGIN { p = 1000; for (y = 1; y <= 3; y++) { p *= 1.05; printf "%.2f ", p } print "" }'
