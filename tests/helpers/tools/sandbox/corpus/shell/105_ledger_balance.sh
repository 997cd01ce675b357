#!/bin/bash
# Keep a running balance of a ledger in cents, to avoid floating point, and check it with awk.
cat > ledger.txt <<'EOF'
2024-01-01 +1500.00 salary
2024-01-03 -49.90 internet
2024-01-03 -0.05 fee
2024-01-10 -1200.00 rent
2024-01-15 +20.1 refund
2024-01-31 -300.25 trip
EOF
to_cents() {
  local v=$1 sign=1 whole frac
  [[ $v == -* ]] && sign=-1
  v=${v#[-+]}
  whole=${v%%.*} frac=${v#*.}00
  echo $(( sign * (10#$whole * 100 + 10#${frac:0:2}) ))
}
money() { local c=$1 s=; (( c < 0 )) && { s=-; c=$((-c)); }; printf '%s%d.%02d' "$s" $((c / 100)) $((c % 100)); }
balance=0 low=999999999
while read -r day amount what; do
  cents=$(to_cents "$amount")
  (( balance += cents ))
  (( balance < low )) && low=$balance && low_day=$day
  printf '%s %10s %10s  %s\n' "$day" "$(money $cents)" "$(money $balance)" "$what"
done < ledger.txt
echo "lowest $(money $low) on $low_day"
awk '{ b += $2 } END { printf "awk says %.2f\n", b }' ledger.txt
awk '$2 < 0 { out -= $2 } $2 > 0 { in_ += $2 } END { printf "in %.2f out %.2f saved %.1f%%\n", in_, out, (in_ - out) / in_ * 100 }' ledger.txt
