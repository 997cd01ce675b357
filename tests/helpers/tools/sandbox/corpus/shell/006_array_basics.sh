#!/bin/bash
# Show how arrays work in bash: length, slices, loops, appending, deleting, joining.
fruits=("apple" "banana split" "cherry")
fruits+=("date" "elderberry")
echo "count: ${#fruits[@]}, first: ${fruits[0]}, last: ${fruits[-1]}, length of second: ${#fruits[1]}"
for f in "${fruits[@]}"; do echo "- $f"; done
echo "slice: ${fruits[@]:1:2}"
unset 'fruits[2]'
echo "indices: ${!fruits[*]}"
fruits[10]="kiwi"
for i in "${!fruits[@]}"; do printf '%d=%s;' "$i" "${fruits[$i]}"; done
echo
joined=$(IFS=,; echo "${fruits[*]}")
echo "joined: $joined"
copy=("${fruits[@]/a/A}")
printf '<%s>' "${copy[@]}"; echo
empty=()
echo "empty: ${#empty[@]} '${empty[*]}'"
