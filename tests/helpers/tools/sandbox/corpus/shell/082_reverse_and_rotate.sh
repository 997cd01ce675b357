#!/bin/bash
# Reverse lines, words and characters, and transpose a matrix.
printf '1 2 3\n4 5 6\n' > m.txt
tac m.txt
rev m.txt
awk '{ for (i = NF; i > 0; i--) printf "%s%s", $i, (i > 1 ? " " : "\n") }' m.txt
echo "transposed:"
awk '{ for (i = 1; i <= NF; i++) a[i, NR] = $i; if (NF > w) w = NF }
END { for (i = 1; i <= w; i++) { row = a[i, 1]; for (j = 2; j <= NR; j++) row = row " " a[i, j]; print row } }' m.txt
echo "row sums: $(awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i; print s }' m.txt | xargs)"
echo "column sums: $(awk '{ for (i = 1; i <= NF; i++) s[i] += $i } END { for (i = 1; i <= NF; i++) printf "%s ", s[i] }' m.txt)"
echo "side by side:"
paste -d' ' m.txt m.txt | head -1
sed 's/^/| /; s/ \([0-9]\)/ \1/g; s/$/ |/' m.txt
words=(one two three four)
for ((i = ${#words[@]} - 1; i >= 0; i--)); do printf '%s ' "${words[i]}"; done; echo
k=1; echo "${words[@]:k} ${words[@]:0:k}"
