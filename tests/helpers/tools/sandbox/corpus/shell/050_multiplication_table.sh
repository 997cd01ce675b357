#!/bin/bash
# Print a multiplication table and a triangle of stars.
printf '   |'
for i in {1..9}; do printf '%3d' "$i"; done
printf '\n---+'
printf -- '---%.0s' {1..9}
echo
for ((i = 1; i <= 9; i++)); do
  printf '%2d |' "$i"
  for ((j = 1; j <= 9; j++)); do printf '%3d' $((i * j)); done
  echo
done
for ((i = 1; i <= 4; i++)); do
  printf "%$((4 - i))s" ''
  for ((j = 0; j < 2 * i - 1; j++)); do printf '*'; done
  printf '\n'
done
awk 'BEGIN { for (i = 1; i <= 4; i++) { for (j = 1; j <= i; j++) printf "%d%s", i * j, (j < i ? " " : "\n") } }'
