#!/bin/bash
# Align columns with tabs and blanks: expand, unexpand, pr and printf from awk.
printf 'id\tname\tprice\n1\tLamp\t19.90\n22\tLong desk\t249\n' > t.tsv
expand -t 12 t.tsv
echo "--"
expand -t 4,16 t.tsv
printf '        x\n' | unexpand | od -c | head -1
awk -F'\t' '
  { for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > w[i]) w[i] = length($i) } }
  END {
    for (r = 1; r <= NR; r++) {
      line = ""
      for (i = 1; i <= NF; i++) line = line (i > 1 ? " | " : "") sprintf("%-" w[i] "s", cell[r, i])
      sub(/ +$/, "", line); print line
      if (r == 1) { gsub(/[^|]/, "-", line); gsub(/\|/, "+", line); print line }
    }
  }' t.tsv
cut -f2 t.tsv | awk '{ printf "%15s|\n", $0 }'
sed 's/\t/,/g; s/[^,]*/"&"/g' t.tsv
seq 1 6 | paste -d'\t' - - | expand -t 5
