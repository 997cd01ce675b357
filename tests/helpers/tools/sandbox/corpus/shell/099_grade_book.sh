#!/bin/bash
# Grade students from a table: mean per student with two decimals, a letter, and the class mean.
cat > grades.txt <<EOF
Ann 90 85 77
Bob 55 60 58.5
Cid 70 75 80
Dee 100 99 98
EOF
letter() {
  local score=${1%.*}
  if [ "$score" -ge 90 ]; then echo A
  elif [ "$score" -ge 80 ]; then echo B
  elif [ "$score" -ge 70 ]; then echo C
  elif [ "$score" -ge 60 ]; then echo D
  else echo F; fi
}
class=0 n=0
while read -r name marks; do
  sum=0 k=0
  for m in $marks; do sum=$(echo "$sum + $m" | bc); k=$((k + 1)); done
  mean=$(echo "scale=2; $sum / $k" | bc)
  echo "$name $mean $(letter "$mean")"
  class=$(echo "$class + $mean" | bc); n=$((n + 1))
done < grades.txt | tee report.txt
echo "class: $class of $n (lost in the pipe)"
awk '{ s += $2 } END { printf "class mean: %.3f\n", s / NR }' report.txt
sort -k2,2nr report.txt | awk '{ print NR ". " $1 }'
cut -d' ' -f3 report.txt | sort | uniq -c | awk '{ print $2 ": " $1 }'
awk '{ for (i = 2; i <= NF; i++) if ($i > best[i]) { best[i] = $i; who[i] = $1 } } END { for (i = 2; i <= 4; i++) print "exam " i - 1 ": " who[i] " " best[i] }' grades.txt
