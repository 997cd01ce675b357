#!/bin/bash
# List the days of a range, the Mondays in it, and the last day of each month.
export TZ=UTC
day=2024-02-26 end=2024-03-06
while [[ ! $day > $end ]]; do
  dow=$(date -d "$day" +%u)
  case $dow in 6 | 7) kind=weekend ;; *) kind=workday ;; esac
  echo "$day $kind"
  day=$(date -d "$day + 1 day" +%F)
done
for m in 01 02 04 12; do date -d "2024-$m-01 +1 month -1 day" '+%b %d'; done
start=$(date -d 2024-01-01 +%s)
for i in 0 100 200; do date -d "@$((start + i * 86400))" '+%F week %V day %j'; done
echo "age: $(( ($(date -d 2024-05-01 +%Y%m%d) - $(date -d 1990-05-02 +%Y%m%d)) / 10000 ))"
secs=98765; printf '%dd %02d:%02d:%02d\n' $((secs / 86400)) $((secs / 3600 % 24)) $((secs / 60 % 60)) $((secs % 60))
