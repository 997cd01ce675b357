#!/bin/bash
# Print Fibonacci numbers iteratively, recursively, and with bc for large ones.
a=0 b=1
for ((i = 0; i < 15; i++)); do
  printf '%d ' "$a"
  t=$((a + b)) a=$b b=$t
done
echo
fib() {
  local n=$1
  if (( n < 2 )); then echo "$n"; return; fi
  echo $(( $(fib $((n - 1))) + $(fib $((n - 2))) ))
}
echo "fib(8) = $(fib 8)"
declare -a memo=(0 1)
fast() { local n=$1; [[ -n ${memo[n]} ]] || { fast $((n - 1)); memo[n]=$((memo[n - 1] + memo[n - 2])); }; }
fast 80; echo "fib(80) = ${memo[80]}"
echo "a=0; b=1; for (i = 0; i < 150; i++) { t = a + b; a = b; b = t; }; a" | bc
echo "scale=12; ${memo[80]} / ${memo[79]}" | bc
