#!/bin/bash
# Put files side by side, and turn columns into lines.
printf 'ann\nbob\ncid\n' > names
printf '31\n17\n' > ages
paste names ages
paste -d: names ages
paste -s names
paste -sd, names
seq 1 9 | paste - - -
seq 1 6 | paste -d' +' - - - | while read -r l; do echo "$l"; done
paste -d'\n' names ages | grep -c .
seq -s' ' 1 5
paste names <(tac names) <(sort -r ages) | awk -F'\t' '{print NF, $3}'
