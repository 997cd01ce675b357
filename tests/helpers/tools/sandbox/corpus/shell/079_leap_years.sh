#!/bin/bash
# Which of these years are leap years, and how many days have their months?
is_leap() { (( $1 % 4 == 0 && ($1 % 100 != 0 || $1 % 400 == 0) )); }
for year in 1900 2000 2023 2024 2100; do
  if is_leap $year; then echo "$year leap"; else echo "$year common"; fi
done
days_in() {
  case $2 in
    4|6|9|11) echo 30 ;;
    2) is_leap "$1" && echo 29 || echo 28 ;;
    *) echo 31 ;;
  esac
}
total=0
for m in {1..12}; do d=$(days_in 2024 "$m"); total=$((total + d)); printf '%s ' "$d"; done
echo "= $total"
weekday() { # Zeller
  local y=$1 m=$2 d=$3 names=(Sat Sun Mon Tue Wed Thu Fri)
  (( m < 3 )) && ((m += 12, y--))
  echo "${names[(d + 13 * (m + 1) / 5 + y % 100 + y % 100 / 4 + y / 100 / 4 + 5 * (y / 100)) % 7]}"
}
for d in "2024 2 29" "1969 7 20" "2000 1 1"; do echo "$d: $(weekday $d) $(TZ=UTC date -d "${d// /-}" +%a)"; done
