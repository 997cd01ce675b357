#!/bin/bash
# Print a formatted payroll report with awk: header, body, subtotals and footer.
cat > staff.txt <<EOF
Ann    dev   5200.50  40
Bob    ops   4100     38
Cid    dev   4800.25  42
Dee    sales 3900     35
Eve    ops   4450.75  40
EOF
sort -k2,2 -k1,1 staff.txt | awk '
BEGIN { printf "%-8s %-6s %10s %6s\n", "Name", "Team", "Pay", "Rate"; line = sprintf("%33s", ""); gsub(/ /, "-", line); print line }
$2 != team && NR > 1 { printf "%-8s %-6s %10.2f\n\n", "", team ":", sub_total; sub_total = 0 }
{
  team = $2; sub_total += $3; total += $3; hours += $4
  printf "%-8s %-6s %10.2f %6.2f\n", $1, $2, $3, $3 / ($4 * 4.33)
  if ($3 > best) { best = $3; name = $1 }
}
END { printf "%-8s %-6s %10.2f\n", "", team ":", sub_total; print line
      printf "%d people, total %.2f, mean %.3f, %d hours; best: %s\n", NR, total, total / NR, hours, name }'
