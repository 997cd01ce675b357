#!/bin/bash
# Count the letters of "à la carte à Málaga" without the blanks, the most frequent first.
text="à la carte à Málaga"
text=${text// /}
declare -A count
for ((i = 0; i < ${#text}; i++)); do
  letter=${text:i:1}
  count[$letter]=$((${count[$letter]:-0} + 1))
done
for letter in "${!count[@]}"; do
  echo "${count[$letter]} $letter"
done | LC_ALL=C sort -k1,1nr -k2,2
echo "${#text} in all"
