#!/bin/bash
# List the primes below 60 by trial division, factor numbers, and count primes below 1000 with a sieve.
is_prime() {
  local n=$1 d
  (( n < 2 )) && return 1
  for ((d = 2; d * d <= n; d++)); do (( n % d == 0 )) && return 1; done
  return 0
}
primes=()
for n in {1..59}; do is_prime "$n" && primes+=("$n"); done
echo "${primes[*]}"
echo "count ${#primes[@]}, sum $(IFS=+; echo $((${primes[*]})))"
for n in 97 360 1001 65537; do
  m=$n d=2 f=""
  while (( d * d <= m )); do
    if (( m % d == 0 )); then f+="$d "; m=$((m / d)); else d=$((d + 1)); fi
  done
  echo "$n: $f$m"
done
factor 360 97
awk 'BEGIN { for (i = 2; i < 1000; i++) if (!(i in c)) { n++; last = i; for (j = i * i; j < 1000; j += i) c[j] } print n, last }'
