#!/bin/bash
# Convert numbers to Roman numerals and back.
to_roman() {
  local n=$1 out="" i
  local values=(1000 900 500 400 100 90 50 40 10 9 5 4 1)
  local letters=(M CM D CD C XC L XL X IX V IV I)
  for i in "${!values[@]}"; do
    while (( n >= values[i] )); do out+=${letters[i]}; ((n -= values[i])); done
  done
  echo "$out"
}
from_roman() {
  declare -A v=([I]=1 [V]=5 [X]=10 [L]=50 [C]=100 [D]=500 [M]=1000)
  local total=0 last=0 i x
  for ((i = ${#1} - 1; i >= 0; i--)); do
    x=${v[${1:i:1}]}
    if ((x < last)); then ((total -= x)); else ((total += x)); fi
    last=$x
  done
  echo "$total"
}
for n in 1 4 9 14 40 90 400 1994 2024 3999; do
  r=$(to_roman "$n")
  printf '%-5d %-10s %d\n' "$n" "$r" "$(from_roman "$r")"
done
