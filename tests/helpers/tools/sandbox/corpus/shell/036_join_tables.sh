#!/bin/bash
# Join customers and orders by their number, with those that have no partner.
cat > customers <<EOF
1 Ann
2 Bob
3 Cid
5 Eve
EOF
cat > orders <<EOF
1 20.50
1 9.99
3 100
4 7.25
EOF
echo "inner:"; join customers orders
echo "left:"; join -a 1 -e NONE -o 0,1.2,2.2 customers orders
echo "only orders:"; join -v 2 customers orders
echo "totals:"
join customers orders | awk '{ t[$2] += $3 } END { for (k in t) printf "%s %.2f\n", k, t[k] }' | sort
printf 'x,1\ny,2\n' > a.csv; printf '1,one\n2,two\n' > b.csv
join -t, -1 2 -2 1 a.csv b.csv
