#!/bin/bash
# Show integer arithmetic: bits, shifts, bases, powers, conditions, increments.
echo $((5 & 3)) $((5 | 3)) $((5 ^ 3)) $((~5)) $((1 << 10)) $((-16 >> 2))
echo $((0xff)) $((0755)) $((2#1011)) $((16#cafe)) $((36#zz))
echo $((7 / 2)) $((-7 / 2)) $((7 % 3)) $((-7 % 3)) $((2 ** 10)) $((3 > 2 ? 10 : 20))
i=5
echo $((i++)) $i $((++i)) $((i--)) $((--i))
((i += 10, i *= 2)); echo $i
let "j = i / 4" k=3; echo "$j $k"
printf '%x %o %X\n' 255 8 48879
to_binary() { local n=$1 b=; while ((n > 0)); do b=$((n % 2))$b; n=$((n / 2)); done; echo "${b:-0}"; }
for n in 0 1 10 255; do echo "$n = $(to_binary $n) = 0x$(printf '%02x' $n)"; done
perm=$((8#640)); for ((s = 8; s >= 0; s--)); do c=rwxrwxrwx; (( perm >> s & 1 )) && printf '%s' "${c:8-s:1}" || printf -- '-'; done; echo
echo $((10#08 + 1)) $(( (1 + 2) * (3 + 4) )) $((!0)) $((5 && 0)) $((1 == 1))
(( 0 )); echo "status $?"; a=3; b=a; echo $((b + 1))
