#!/bin/bash
# Show lines that are repeated, unique, counted, without regard to case or the first field.
printf '%s\n' a a b c c c a > x
echo "plain: $(uniq x | xargs)"
echo "repeated: $(uniq -d x | xargs)"
echo "unique: $(uniq -u x | xargs)"
uniq -c x
printf 'Foo\nfoo\nbar\n' | uniq -i -c
printf '1 x\n2 x\n3 y\n' | uniq -f 1
printf 'aXX\nbXX\ncYY\n' | uniq -s 1
printf 'abc1\nabc2\nabd3\n' | uniq -w 3 -c
sort x | uniq -c | sort -rn | awk 'NR == 1 {print "most frequent:", $2, "(" $1 ")"}'
sort x | uniq -D | wc -l
awk '!seen[$0]++' x | xargs
