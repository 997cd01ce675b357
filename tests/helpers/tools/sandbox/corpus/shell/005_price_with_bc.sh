#!/bin/bash
# Work out prices with bc: 19.99 * 3, with 19% tax, divided among 7 people.
price=19.99
count=3
net=$(echo "$price * $count" | bc)
echo "net: $net"
echo "tax: $(echo "scale=2; $net * 0.19" | bc)"
gross=$(echo "scale=4; $net * 1.19" | bc)
echo "gross: $gross"
printf 'rounded: %.2f\n' "$gross"
echo "each of 7: $(echo "scale=3; $gross / 7" | bc)"
echo "scale=10; 1/3; 2/3; 10/4; sqrt(2); 2^10; 7 % 3; -7 / 2" | bc
echo "1/3" | bc -l
echo "scale=6; 4*a(1); e(1); l(10); s(0)" | bc -l
if (( $(echo "$gross > 70" | bc) )); then echo "more than 70"; else echo "at most 70"; fi
