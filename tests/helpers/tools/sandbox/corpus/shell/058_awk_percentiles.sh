#!/bin/bash
# Compute min, median, p90, max, mean and standard deviation of a column of numbers.
seq 1 50 | awk '{ print ($1 * 37) % 101 + 0.5 }' > values.txt
sort -n values.txt | awk '
function percentile(p,   k) { k = int(p / 100 * n + 0.999999); return v[k < 1 ? 1 : k] }
{ v[NR] = $1; sum += $1; sq += $1 * $1 }
END {
  n = NR; mean = sum / n
  median = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
  printf "n=%d min=%.1f max=%.1f\n", n, v[1], v[n]
  printf "median=%.2f p25=%.1f p90=%.1f p99=%.1f\n", median, percentile(25), percentile(90), percentile(99)
  printf "mean=%.3f sd=%.4f\n", mean, sqrt(sq / n - mean * mean)
}'
awk '$1 > 50 { above++ } END { printf "above 50: %d (%.1f%%)\n", above, 100 * above / NR }' values.txt
awk 'NR > 1 { d = $1 - last; if (d < 0) d = -d; t += d } { last = $1 } END { print "mean step", t / (NR - 1) }' values.txt
