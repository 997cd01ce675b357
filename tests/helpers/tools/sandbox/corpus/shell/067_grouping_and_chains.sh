#!/bin/bash
# Combine commands with &&, ||, !, groups and subshells.
true && echo "and" || echo "or"
false && echo "and" || echo "or"
! false && echo "negated"
{ echo one; echo two; } | wc -l | tr -d ' '
here=$PWD; mkdir -p sub/way && ( cd sub/way && echo "in ${PWD##*/}" ); [ "$PWD" = "$here" ] && echo "still here"
mkdir box && ( cd box && touch inside && ls )
false || { echo "first"; false; } || echo "second"
[ 1 = 1 ] && [ 2 = 3 ] || echo "not both"
if ! grep -q x <<< "abc"; then echo "no x"; fi
if [ -d box ] && ls box | grep -q inside; then echo "found"; elif true; then echo "else-if"; else echo "else"; fi
ok=0; for n in 1 2 3; do [ "$n" -ge 2 ] || continue; ok=$((ok + 1)); done; echo "$ok"
case "$(false; echo $?)$(true; echo $?)" in 10) echo "one zero" ;; *) echo other ;; esac
x=5; [[ $x -gt 3 && ( $x -lt 10 || $x -eq 99 ) ]] && echo "in range"
true; false; true | false; echo "last: $?"
