#!/bin/bash
# Find anagrams, the longest words, and words by first letter in a list.
printf '%s\n' listen apple silent bat tab enlist ape cat act papaya level bookroom > words
while read -r w; do
  echo "$(echo "$w" | grep -o . | sort | tr -d '\n') $w"
done < words | sort | awk '{ g[$1] = g[$1] " " $2; n[$1]++ } END { for (k in g) if (n[k] > 1) print k ":" g[k] }' | sort
awk '{ print length, $0 }' words | sort -k1,1nr -k2 | head -3
cut -c1 words | sort | uniq -c | awk '{ printf "%s%s", $2, $1 } END { print "" }'
grep -E '^(.).*\1$' words
grep -cE '[aeiou]{2}' words
sed -n '/^a/p' words | wc -l | tr -d ' '
awk '{ c = gsub(/a/, "a"); t += c } END { print "letter a:", t }' words
grep -x '...' words | sort | paste -sd,
awk 'length > 5 { print substr($0, 1, 1) toupper(substr($0, 2)) }' words | head -2
