#!/bin/bash
# Sum the amounts per category in a CSV and show the total and the mean.
cat > expenses.csv <<EOF
date,category,amount
2024-01-03,food,23.50
2024-01-04,travel,120.00
2024-01-09,food,11.25
2024-02-01,rent,650
2024-02-03,food,40.10
2024-02-11,travel,15.75
EOF

awk -F, 'NR > 1 { sum[$2] += $3; n[$2]++; total += $3 }
END {
  for (c in sum) printf "%-8s %3d %9.2f %8.3f\n", c, n[c], sum[c], sum[c] / n[c]
  printf "%-8s %3d %9.2f %8.3f\n", "~total", NR - 1, total, total / (NR - 1)
}' expenses.csv | sort
echo "biggest: $(tail -n +2 expenses.csv | sort -t, -k3,3nr | head -1)"
