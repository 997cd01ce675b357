#!/bin/bash
# Count lines, words, characters and bytes, per file and in total.
printf 'one two\nthree\n' > a
printf 'no newline at the end' > b
: > c
wc a b c
wc -l a b | awk '{print $1, $2}'
wc -w < b | tr -d ' '
cat a b c | wc -c | tr -d ' '
wc -L a b | head -1 | awk '{print $1}'
for f in a b c; do echo "$f: $(grep -c '' "$f") lines by grep, $(wc -l < "$f" | tr -d ' ') by wc"; done
lines=$(wc -l < a); echo $((lines * 10))
printf 'h\303\251llo' | wc -c | tr -d ' '
find . -type f | wc -l | tr -d ' '
stat -c '%n %s' a b c
du -b a | cut -f1
