#!/bin/bash
# Print Celsius, Fahrenheit and Kelvin from -40 to 100 in steps of 35, rounded to one decimal.
printf '%8s %8s %8s\n' C F K
for c in $(seq -40 35 100); do
  f=$(echo "scale=2; $c * 9 / 5 + 32" | bc)
  k=$(echo "$c + 273.15" | bc)
  printf '%8.1f %8.1f %8.2f\n' "$c" "$f" "$k"
done
seq 0 0.5 2
seq 5 -2 1 | xargs
awk 'BEGIN { for (f = 0; f <= 100; f += 50) printf "%d F = %.3f C\n", f, (f - 32) * 5 / 9 }'
echo "scale=1; (98.6 - 32) * 5 / 9" | bc
echo "comparison: $(echo '-40.0 < 32.5' | bc) $(echo '1.50 == 1.5' | bc) $(echo '2 >= 3' | bc)"
