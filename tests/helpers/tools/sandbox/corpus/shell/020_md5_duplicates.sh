#!/bin/bash
# Find files with equal contents by their checksums.
mkdir -p photos/old
echo "cat" > photos/a.txt
echo "dog" > photos/b.txt
echo "cat" > photos/old/copy-of-a.txt
echo "bird" > photos/old/c.txt
cp photos/b.txt photos/old/b2.txt
find photos -type f -exec md5sum {} + | sort -k1,1 -k2 > sums.txt
awk '{print $1}' sums.txt | uniq -d | while read -r sum; do
  echo "duplicates ($sum):"
  grep "^$sum" sums.txt | awk '{print "  " $2}'
done
echo "$(awk '{print $1}' sums.txt | sort -u | wc -l) distinct of $(wc -l < sums.txt)"
printf 'hello' | md5sum | cut -d' ' -f1
