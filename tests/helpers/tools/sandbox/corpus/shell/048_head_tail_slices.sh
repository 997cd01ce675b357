#!/bin/bash
# Get the first, last and middle lines of a file, and all but some.
seq -f 'line %g' 1 12 > f.txt
head -n 2 f.txt
tail -n 2 f.txt
head -n 6 f.txt | tail -n 1
tail -n +11 f.txt
head -n -10 f.txt
head -c 9 f.txt; echo
tail -c 8 f.txt
sed -n '4,5p' f.txt
awk 'NR == 7' f.txt
cat f.txt f.txt | tail -n 3 | head -1
printf 'a\nb' | tail -n 1; echo
head -n 1 f.txt n2.txt 2> /dev/null; echo "status $?"
printf '1\n' > n2.txt; head -n 1 f.txt n2.txt; tail -qn 1 f.txt n2.txt
tac f.txt | head -2
