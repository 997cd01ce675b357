#!/bin/bash
# Read the prices, add them up, and print the bill.
total=0
while IFS='|' read -r dish price; do
  price=${price%€}
  total=$((total + price))
  echo "$dish costs $price €"
done <<'END'
Crème brûlée|7€
Œufs à la coque|5€
Thé vert|3€
END
echo "Total: $total €"
[[ "é" > "z" ]] && echo "é comes after z"
