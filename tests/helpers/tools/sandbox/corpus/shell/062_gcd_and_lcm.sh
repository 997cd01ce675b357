#!/bin/bash
# Compute the greatest common divisor and the least common multiple of several numbers.
gcd() {
  local a=$1 b=$2 t
  while [ "$b" -ne 0 ]; do t=$((a % b)); a=$b; b=$t; done
  echo "$a"
}
lcm() { echo $(($1 / $(gcd "$1" "$2") * $2)); }
for pair in "12 18" "100 75" "17 5" "270 192"; do
  set -- $pair
  echo "gcd($1, $2) = $(gcd "$1" "$2"), lcm = $(lcm "$1" "$2")"
done
all=1
for n in {1..15}; do all=$(lcm $all $n); done
echo "lcm of 1..15: $all"
abs() { echo "${1#-}"; }
sign() { (( $1 > 0 )) && echo 1 || { (( $1 < 0 )) && echo -1 || echo 0; }; }
for n in -7 0 9; do echo "$n: abs $(abs $n), sign $(sign $n)"; done
isqrt() { local n=$1 r=0; while (( (r + 1) * (r + 1) <= n )); do ((r++)); done; echo $r; }
echo "isqrt: $(isqrt 99) $(isqrt 100) $(echo 'sqrt(99)' | bc) $(echo 'scale=4; sqrt(99)' | bc)"
