#!/bin/bash
# Run jobs in the background, wait for them, and collect results and exit codes.
work() { echo "result of $1" > "out.$1"; return "$2"; }
pids=()
for i in 1 2 3; do work "$i" $((i - 1)) & pids+=($!); done
for i in "${!pids[@]}"; do
  wait "${pids[i]}"; echo "job $((i + 1)) ended with $?"
done
cat out.*
(sleep 0.2; echo "late") &
echo "early"
wait
echo "all done"
sum=0
for f in out.*; do n=$(cut -d' ' -f3 < "$f"); sum=$((sum + n)); done; echo "sum $sum"
timeout 0.1 sleep 5; echo "timeout gives $?"
mkdir lock 2> /dev/null && echo "locked"; mkdir lock 2> /dev/null || echo "already locked"
coproc_out=$(printf '3\n4\n' | { read -r a; read -r b; echo $((a * b)); }); echo "$coproc_out"
