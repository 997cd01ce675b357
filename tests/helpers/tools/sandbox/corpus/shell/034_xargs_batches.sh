#!/bin/bash
# Use xargs to work in batches, one by one, with placeholders and with names that have spaces.
seq 1 10 | xargs -n 4 echo batch:
printf 'a b\nc\n' | xargs -I{} echo "<{}>"
touch "file one.txt" file2.txt
find . -name '*.txt' -print0 | sort -z | xargs -0 -n1 basename
echo "3 4 5" | xargs -n1 | while read -r n; do echo $((n * n)); done | paste -sd+ | bc
printf '%s\n' x y z | xargs
echo "one two" | xargs sh -c 'echo "$0 then $1"'
printf '' | xargs -r echo "never"
printf 'k1 v1\nk2 v2\n' | xargs -L1 sh -c 'echo "$0=$1"'
find . -name '*.txt' -print0 | xargs -0 rm
ls | wc -l
