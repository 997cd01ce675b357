#!/bin/bash
# Take fields and character ranges from records with cut.
cat > passwd.txt <<'EOF'
root:x:0:0:Super User:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
ann:x:1000:1000:Ann Example,,,:/home/ann:/bin/zsh
EOF
cut -d: -f1,7 passwd.txt
cut -d: -f1,3- --output-delimiter=' | ' passwd.txt | head -1
cut -c1-4 passwd.txt
cut -c -3,6- passwd.txt | tail -1
cut -d: -f5 passwd.txt | cut -d, -f1
echo "no delimiter" | cut -d: -f2
echo "no delimiter" | cut -s -d: -f2 | wc -l
echo "a b c d" | cut -d' ' -f2-3
awk -F: '$3 >= 1000 {print $1 " -> " $NF}' passwd.txt
awk -F: '{print $7}' passwd.txt | sort | uniq -c | sort -rn -k1,1 -k2
printf 'x\ty\tz\n' | cut -f3
