#!/bin/bash
# Number the lines of a file in different ways.
printf 'first\n\nthird\nfourth\n' > lines.txt
nl lines.txt
nl -ba -w3 -s': ' lines.txt
nl -ba -n rz -w4 -v10 -i5 lines.txt
cat -n lines.txt
grep -n '' lines.txt
awk '{printf "%2d) %s\n", NR, $0}' lines.txt
sed = lines.txt | sed 'N;s/\n/\t/'
