#!/bin/bash
# Who was there on all three days, and who on exactly one?
printf 'bob\nann\ncid\n' > mon
printf 'cid\ndee\nann\nann\n' > tue
printf 'ann\ncid\nfay\n' > wed
for d in mon tue wed; do sort -u "$d" -o "$d"; done
comm mon tue
echo "all days: $(comm -12 mon tue | comm -12 - wed | tr '\n' ' ')"
sort mon tue wed | uniq -c | awk '$1 == 1 {print "only once:", $2}'
grep -Fxf mon wed
grep -vFxf mon tue
cat mon tue wed | sort | uniq -d | wc -l | xargs echo "on several days:"
