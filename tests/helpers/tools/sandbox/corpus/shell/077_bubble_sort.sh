#!/bin/bash
# Sort an array of numbers with bubble sort and with quicksort, and search in it.
numbers=(42 7 -3 100 19 7 0 64)
bubble() {
  local n=${#numbers[@]} i j tmp swaps=0
  for ((i = 0; i < n - 1; i++)); do
    for ((j = 0; j < n - i - 1; j++)); do
      if (( numbers[j] > numbers[j + 1] )); then
        tmp=${numbers[j]}; numbers[j]=${numbers[j + 1]}; numbers[j + 1]=$tmp
        ((swaps++))
      fi
    done
  done
  echo "swaps: $swaps"
}
quick() {
  (( $# < 2 )) && { echo "$@"; return; }
  local pivot=$1 less=() more=() x; shift
  for x; do if (( x < pivot )); then less+=("$x"); else more+=("$x"); fi; done
  echo $(quick "${less[@]}") "$pivot" $(quick "${more[@]}")
}
echo "quick: $(quick "${numbers[@]}")"
bubble
echo "bubble: ${numbers[*]}"
search() {
  local lo=0 hi=$((${#numbers[@]} - 1)) mid
  while ((lo <= hi)); do
    mid=$(((lo + hi) / 2))
    if ((numbers[mid] == $1)); then echo "$1 at $mid"; return; elif ((numbers[mid] < $1)); then lo=$((mid + 1)); else hi=$((mid - 1)); fi
  done
  echo "$1 not found"
}
search 42; search 5; search -3
