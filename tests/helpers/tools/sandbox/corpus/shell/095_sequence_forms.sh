#!/bin/sh
# Make sequences: padded, with separators, floating steps, letters, repeated.
seq 3
seq -w 8 11
seq -s ', ' 2 2 10
seq 10 -5 -5 | tr '\n' ' '; echo
seq -f '%03g.txt' 1 3
seq -f '%.2f' 0 0.25 0.5
for i in $(seq 1 3); do printf '%s\n' "$i$i$i"; done
yes ab | head -n 3 | tr '\n' '-'; echo
printf 'x%.0s' $(seq 1 7); echo
i=5; while [ $i -gt 0 ]; do printf '%d..' "$i"; i=$((i - 1)); done; echo "go"
printf '%s\n' a b c | awk '{ for (n = 0; n < 2; n++) print $0 n }' | paste -sd' ' -
awk 'BEGIN { for (i = 97; i < 103; i++) printf "%c", i; print "" }'
echo "$(seq 1 20 | awk 'NR % 5 == 0' | xargs)"
