#!/bin/bash
# Use here-strings and command substitution, nested, for small computations.
wc -w <<< "four words are here" | tr -d ' '
bc <<< "scale=3; 22/7"
grep -o . <<< "abc" | sort -r | paste -sd ''
read -r a b <<< "$(echo "3 4")"; echo $((a * b))
outer=$(echo "outer $(echo "inner $(echo deep | tr a-z A-Z)")")
echo "$outer"
lines=$(printf 'x\ny\n\n\n'); echo "[${lines}]"
echo `echo back \`echo ticks\``
today=$(TZ=UTC date -d '2024-05-06' +%A); echo "It was a ${today}."
n=$(( $(wc -l <<< $'1\n2\n3') + 1 )); echo "$n"
cat <<< "$(cat <<EOF
from a here-document, $((6 * 7))
EOF
)"
tr ' ' '\n' <<< "z y x" | sort | xargs -I% echo "item %"
status=$(false; echo $?); echo "status $status"
