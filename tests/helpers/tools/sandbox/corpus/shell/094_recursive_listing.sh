#!/bin/bash
# Print a folder as an indented tree with sizes, by a recursive function.
mkdir -p top/{a/deep,b,empty}
printf '12345' > top/a/five
printf '1' > top/a/deep/one
printf '1234567890' > top/b/ten
walk() {
  local dir=$1 indent=$2 entry size=0 s
  for entry in "$dir"/*; do
    [ -e "$entry" ] || continue
    if [ -d "$entry" ]; then
      echo "$indent${entry##*/}/"
      walk "$entry" "$indent  "
      size=$((size + REPLY_SIZE))
    else
      s=$(wc -c < "$entry" | tr -d ' ')
      echo "$indent${entry##*/} ($s)"
      size=$((size + s))
    fi
  done
  REPLY_SIZE=$size
}
walk top ""
echo "total $REPLY_SIZE"
find top -type f -exec cat {} + | wc -c | tr -d ' '
find top -depth -type d -empty -exec rmdir {} \; ; find top -type d | sort
hanoi() { (( $1 == 0 )) && return; hanoi $(($1 - 1)) "$2" "$4" "$3"; printf '%s%s ' "$2" "$3"; hanoi $(($1 - 1)) "$4" "$3" "$2"; }
hanoi 3 A C B; echo
sum_digits() { local n=$1; (( n < 10 )) && echo "$n" || echo $(( n % 10 + $(sum_digits $((n / 10))) )); }
sum_digits 98765
