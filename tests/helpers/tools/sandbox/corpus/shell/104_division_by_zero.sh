#!/bin/bash
# Compute unit prices; one quantity is zero, and the arithmetic error ends that line with a message.
total=0
while read -r item cents qty; do
  if unit=$( (echo $((cents / qty))) 2> /dev/null ); then
    echo "$item: $unit cents each"
    total=$((total + unit))
  else
    echo "$item: no quantity"
  fi
done <<'EOF'
pen 300 4
ink 999 0
pad 1250 5
EOF
echo "sum of unit prices: $total"
echo "by bc: $(echo '1/0' | bc 2>&1 | grep -c -i zero)"
awk 'BEGIN { printf "%.3f %d\n", 300 / 7, 1e3 % 7 }'
echo "about to divide by zero"
echo $((total / (total - total)))
echo "still running, last status $?"
exit 9
