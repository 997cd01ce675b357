#!/bin/bash
# Shuffle and draw with a fixed seed so that the run can be repeated.
seed=42
next() { seed=$(( (seed * 1103515245 + 12345) % 2147483648 )); }
declare -A hits
for i in $(seq 1 200); do
  next; d=$(( seed / 65536 % 6 + 1 ))
  hits[$d]=$(( ${hits[$d]:-0} + 1 ))
done
for d in 1 2 3 4 5 6; do printf '%d: %3d %s\n' "$d" "${hits[$d]}" "$(printf '#%.0s' $(seq 1 $(( hits[$d] / 4 ))))"; done
cards=(A K Q J 10 9 8 7)
for ((i = ${#cards[@]} - 1; i > 0; i--)); do
  next; j=$(( seed / 65536 % (i + 1) ))
  tmp=${cards[i]} cards[i]=${cards[j]} cards[j]=$tmp
done
echo "${cards[*]}"
awk 'BEGIN { x = 7; for (i = 0; i < 5; i++) { x = (x * 16807) % 2147483647; printf "%d ", x % 100 } print "" }'
[[ $RANDOM =~ ^[0-9]+$ ]] && echo "RANDOM is a number"
