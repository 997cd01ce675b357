#!/bin/bash
# Compress a file with gzip, read it without unpacking, and compare the sizes.
seq 1 2000 > numbers.txt
before=$(wc -c < numbers.txt)
gzip -k numbers.txt
after=$(wc -c < numbers.txt.gz)
echo "before: $before bytes"
[ "$after" -lt "$before" ] && echo "smaller"
zcat numbers.txt.gz | tail -n 2
gunzip -c numbers.txt.gz | cmp - numbers.txt && echo "identical"
rm numbers.txt
gzip -d numbers.txt.gz
ls
echo "hello" | gzip -c | gzip -dc
awk '{s += $1} END {print "sum", s}' numbers.txt
