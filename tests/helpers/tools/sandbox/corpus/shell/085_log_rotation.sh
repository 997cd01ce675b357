#!/bin/bash
# Rotate a log: keep three old versions, the older ones compressed.
rotate() {
  local log=$1 keep=3 i
  [ -f "$log.$keep.gz" ] && rm "$log.$keep.gz"
  for ((i = keep - 1; i >= 2; i--)); do
    [ -f "$log.$i.gz" ] && mv "$log.$i.gz" "$log.$((i + 1)).gz"
  done
  [ -f "$log.1" ] && gzip -c "$log.1" > "$log.2.gz" && rm "$log.1"
  mv "$log" "$log.1"
  : > "$log"
}
for day in 1 2 3 4 5; do
  for n in $(seq "$day"); do echo "day $day entry $n" >> app.log; done
  rotate app.log
  echo "after day $day: $(ls app.log* | paste -sd' ')"
done
echo "current: $(wc -c < app.log | tr -d ' ') bytes"
cat app.log.1 | tail -1
zcat app.log.2.gz | head -1
zgrep -c entry app.log.3.gz
total=0
for f in app.log.*; do case $f in *.gz) n=$(zcat "$f" | wc -l) ;; *) n=$(wc -l < "$f") ;; esac; total=$((total + n)); done
echo "kept lines: $total"
