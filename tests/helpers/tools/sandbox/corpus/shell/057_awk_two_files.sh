#!/bin/bash
# Join prices to a shopping list with awk, and say what is not in the price list.
cat > prices.csv <<EOF
apple,0.50
bread,2.25
milk,1.19
EOF
cat > list.csv <<EOF
milk,6
apple,10
caviar,1
bread,2
EOF
awk -F, '
  NR == FNR { price[$1] = $2; next }
  $1 in price { cost = price[$1] * $2; total += cost; printf "%-8s %3d x %5.2f = %6.2f\n", $1, $2, price[$1], cost; next }
  { missing = missing (missing ? ", " : "") $1 }
  END { printf "total %.2f\n", total; if (missing) print "no price: " missing }
' prices.csv list.csv
awk -F, -v limit=1 '$2 > limit { n++ } END { print n " dearer than " limit }' prices.csv
awk 'BEGIN { FS = OFS = "," } { $2 = $2 * 1.1; print }' prices.csv
awk -F, '{ print FILENAME ":" FNR ":" NR ":" $1 }' prices.csv list.csv | tail -2
