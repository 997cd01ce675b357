#!/bin/bash
# Read the lines of a file into an array, and process them from the end.
printf 'first line\n  second with blanks  \n\nfourth\n' > in.txt
mapfile -t lines < in.txt
echo "${#lines[@]} lines"
for ((i = ${#lines[@]} - 1; i >= 0; i--)); do echo "$i: [${lines[i]}]"; done
readarray -t words < <(tr ' ' '\n' < in.txt | grep .)
echo "${#words[@]} words: ${words[*]}"
mapfile -t -s 1 -n 1 one < in.txt; echo "one: ${one[0]}"
mapfile -d, -t parts < <(printf 'a,b,c'); echo "${parts[@]}"
sorted=($(printf '%s\n' "${words[@]}" | sort))
echo "${sorted[*]}"
IFS=$'\n' read -r -d '' -a all < in.txt
echo "${#all[@]} without the empty one, last: ${all[-1]}"
longest=""
for l in "${lines[@]}"; do (( ${#l} > ${#longest} )) && longest=$l; done; echo "longest: '$longest' ${#longest}"
