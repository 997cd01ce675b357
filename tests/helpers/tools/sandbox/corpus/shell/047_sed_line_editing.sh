#!/bin/bash
# Print, delete, insert and change lines by number and by pattern with sed.
seq 1 10 > n.txt
echo "3 to 5: $(sed -n '3,5p' n.txt | xargs)"
echo "without 2 to 9: $(sed '2,9d' n.txt | xargs)"
echo "last: $(sed -n '$p' n.txt)"
echo "every third: $(sed -n '0~3p' n.txt | xargs)"
cat > conf <<'EOF'
[main]
a=1
# comment
b=2

[extra]
c=3
EOF
sed '/^#/d;/^$/d' conf
echo "--"; sed -n '/^\[extra\]/,$p' conf
echo "--"; sed '/^b=/i before' conf | sed '/^b=/a after' | sed -n '/before/,/after/p'
echo "--"; sed '/^c=/c\c=changed' conf | tail -1
sed '/^\[main\]/,/^\[/ s/=/ = /' conf | grep ' = '
sed -n '/a=/{n;p;}' conf
sed '$!d' conf; sed '1!G;h;$!d' n.txt | head -2; sed '5q' n.txt | tail -1
sed -n '/=/=' conf | paste -sd,
sed ':a;N;$!ba;s/\n/,/g' n.txt
