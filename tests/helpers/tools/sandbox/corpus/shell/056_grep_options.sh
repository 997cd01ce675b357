#!/bin/bash
# Search text with grep: counts, context, only matches, whole words, several patterns, files.
cat > log.txt <<'EOF'
INFO start
WARN disk at 91%
INFO error rate 0.5
ERROR cannot open file: errors.db
info lower
ERROR timeout after 30s
EOF
grep -c ERROR log.txt
grep -n ERROR log.txt
grep -i '^info' log.txt | wc -l | tr -d ' '
grep -v INFO log.txt | head -2
grep -w error log.txt
grep -oE '[0-9]+(\.[0-9]+)?' log.txt | paste -sd' '
grep -A1 -B1 'rate' log.txt
grep -e WARN -e timeout log.txt
grep -E 'start|lower$' log.txt
grep -F '0.5' log.txt
grep -q nothing log.txt; echo "status $?"
grep -m1 ERROR log.txt
mkdir d; echo "needle" > d/a; echo "hay" > d/b
grep -r needle d; grep -rl hay d; grep -L needle d/*; grep -h e d/a log.txt | wc -l
grep -oP '(?<=after )\d+' log.txt
echo "a.b" | grep -c 'a\.b'; echo 'x[1]' | grep -o '\[.\]'
grep missing absent.txt 2>/dev/null; echo "status $?"
