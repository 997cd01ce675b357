#!/bin/bash
# Format numbers: thousands separators, human sizes, percentages, rounding, seconds as time.
commas() { echo "$1" | sed -E ':a; s/^(-?[0-9]+)([0-9]{3})/\1,\2/; ta'; }
for n in 7 1234 -1234567 1000000000 12345.678; do commas "$n"; done
numfmt --to=iec 1024 1536000 999
numfmt --to=si --suffix=B 1500000
numfmt --from=iec 2K 1.5M
human() { awk -v b="$1" 'BEGIN { split("B KiB MiB GiB", u); i = 1; while (b >= 1024 && i < 4) { b /= 1024; i++ } printf "%.1f %s\n", b, u[i] }'; }
human 512; human 2048; human 123456789
percent() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f%%\n", a / b * 100 }'; }
percent 1 3; percent 45 60
for x in 0.5 1.5 2.5 2.675; do awk -v x="$x" 'BEGIN { printf "%.0f ", x }'; done; echo
round() { echo "scale=$2 + 3; r = $1 + 0.5 * 10^-$2; scale=$2; r / 1" | bc; }
round 2.6751 2; round 3.14159 3
for s in 59 61 3661 90061; do printf '%02d:%02d:%02d ' $((s / 3600)) $((s % 3600 / 60)) $((s % 60)); done; echo
printf '%.3e %g %g\n' 123456 1000000 1e-5
echo "$(( 17 * 100 / 7 ))" | sed 's/..$/.&/'
