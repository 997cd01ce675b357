#!/bin/bash
# Split a big file into parts of 40 lines, put them together again, and split by a pattern.
seq 1 100 > big.txt
split -l 40 big.txt part_
wc -l part_* | awk '{print $1, $2}'
cat part_* | cmp - big.txt && echo "complete"
split -d -n l/3 big.txt num_ && ls num_* | paste -sd' '
head -c 10 /dev/zero | split -b 4 - z_ && stat -c '%n=%s' z_* | paste -sd' '
printf 'intro\n# one\na\nb\n# two\nc\n' > chapters.txt
csplit -s -f ch_ chapters.txt '/^# /' '{*}'
for f in ch_*; do echo "$f: $(paste -sd/ "$f")"; done
awk '/^# /{ file = $2 ".out" } file { print > file }' chapters.txt
cat one.out two.out | wc -l | tr -d ' '
