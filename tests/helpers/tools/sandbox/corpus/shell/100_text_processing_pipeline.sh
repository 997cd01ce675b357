#!/bin/bash
# Clean a messy list of email addresses: trim, lower case, drop invalid and repeated ones, group by domain.
cat > raw.txt <<'EOF'
  Ann@Example.org
bob@test.com;carol@test.com
not-an-email
ANN@example.ORG
dave@sub.example.org , eve@test.com

bob@test.com
@broken.org
EOF
tr ';,' '\n\n' < raw.txt \
  | sed 's/^[[:space:]]*//; s/[[:space:]]*$//' \
  | tr '[:upper:]' '[:lower:]' \
  | grep -E '^[a-z0-9._-]+@[a-z0-9-]+(\.[a-z0-9-]+)+$' \
  | sort -u > clean.txt
cat clean.txt
echo "rejected: $(tr ';,' '\n\n' < raw.txt | grep -cvE '[^@[:space:]]+@.+\.|^[[:space:]]*$')"
awk -F@ '{ n[$2]++; users[$2] = users[$2] (users[$2] ? "," : "") $1 } END { for (d in n) print n[d], d, users[d] }' clean.txt | sort -k1,1nr -k2
cut -d@ -f2 clean.txt | awk -F. '{ print $NF }' | sort | uniq -c | sort -rn | sed 's/^ *//'
paste -sd';' clean.txt
while IFS=@ read -r user domain; do printf '%-6s at %s\n' "$user" "$domain"; done < clean.txt
