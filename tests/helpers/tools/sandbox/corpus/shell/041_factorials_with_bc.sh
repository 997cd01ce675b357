#!/bin/bash
# Compute factorials and powers that are too big for the shell's integers.
factorial() {
  local result=1 i
  for ((i = 2; i <= $1; i++)); do result=$(echo "$result * $i" | bc); done
  echo "$result"
}
for n in 5 10 20 25 30; do printf '%2d! = %s\n' "$n" "$(factorial "$n")"; done
echo "2^100 = $(echo '2^100' | bc)"
echo "2^100 has $(echo '2^100' | bc | tr -d '\n' | wc -c | tr -d ' ') digits"
bc <<'EOF'
define f(n) {
  if (n <= 1) return 1;
  return n * f(n - 1);
}
f(22)
scale = 5
x = 10
while (x > 6) { x -= 1.5; x }
for (i = 1; i <= 3; i++) i * i / 2
a[0] = 7; a[1] = 8
a[0] * a[1]
obase = 16; 255
obase = 2; 10
EOF
echo "ibase=16; FF" | bc
echo "9223372036854775807 + 1: $((9223372036854775807 + 1))"
