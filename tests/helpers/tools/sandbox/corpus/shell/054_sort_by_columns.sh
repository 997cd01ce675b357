#!/bin/bash
# Sort records by several columns: numbers, months, versions, human sizes, without duplicates.
cat > data.txt <<EOF
carol 30 2.5K Feb
alice 4 10M Jan
bob 30 900 Dec
Dave 4 1G Mar
alice 12 10M Jan
EOF
export LC_ALL=C
echo "by name:"; sort data.txt
echo "fold:"; sort -f -k1,1 -s data.txt | cut -d' ' -f1 | xargs
echo "number, then name reversed:"; sort -k2,2n -k1,1r data.txt
echo "size:"; sort -k3,3h data.txt | awk '{print $3}' | xargs
echo "month:"; sort -k4,4M -s data.txt | awk '{print $4}' | xargs
echo "unique names: $(sort -u -k1,1 data.txt | wc -l | tr -d ' ')"
printf '%s\n' 1.10 1.9 1.2.3 | sort -V | xargs
printf '%s\n' 10 9 -3 2.5 1e2 | sort -n | xargs
printf '%s\n' 10 9 -3 2.5 1e2 | sort -g | xargs
printf 'b:2\na:10\nc:1\n' | sort -t: -k2 -n | xargs
sort -c data.txt 2>/dev/null || echo "not sorted"
