#!/bin/bash
# Edit text with sed: replacements, groups, flags, several commands, in place.
cat > letter.txt <<'EOF'
Dear NAME, your order of 2024-03-15 costs 100 EUR.
The the word is doubled.   Trailing blanks   
path=/usr/local/bin
EOF
sed 's/NAME/Ann/' letter.txt | head -1
sed -E 's/([0-9]{4})-([0-9]{2})-([0-9]{2})/\3.\2.\1/' letter.txt | head -1
sed -n 's/[a-z]*=\(.*\)/<\1>/p' letter.txt
sed 's|/usr/local|/opt|; s/[[:space:]]*$//' letter.txt | tail -2
sed -E 's/\b([Tt]he) the\b/\1/' letter.txt | sed -n 2p
echo "aaa bbb" | sed 's/a/X/2; s/b/Y/g'
echo "hello world" | sed 's/o/[&]/g'
echo "hello" | sed 's/l/L/gI;s/./\U&/'
echo "one two" | sed -E 's/(\w+) (\w+)/\2 \1/'
sed -i 's/EUR/USD/' letter.txt && grep -o '[0-9]* USD' letter.txt
sed -i.bak -e '/^path/d' -e '1s/^/> /' letter.txt; cat letter.txt; ls
echo "a.b.c" | sed 's/\./-/g' | sed 'y/abc/xyz/'
echo 'x=1&y=2' | sed 's/&/\n/g'
