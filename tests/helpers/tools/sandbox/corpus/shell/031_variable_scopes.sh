#!/bin/bash
# Show the scopes of variables: global, local, subshell, and in pipelines.
x=global
change() { x=changed; }
shadow() { local x=local; echo "inside: $x"; inner; }
inner() { echo "inner sees: $x"; }
shadow
echo "after shadow: $x"
change
echo "after change: $x"
( x=subshell; echo "in subshell: $x" )
echo "after subshell: $x"
count=0
printf 'a\nb\nc\n' | while read -r _; do count=$((count + 1)); done
echo "after pipeline: $count"
while read -r _; do count=$((count + 1)); done < <(printf 'a\nb\nc\n')
echo "after redirect: $count"
readonly PI=3.14
(PI=3) 2>/dev/null || echo "PI is read-only: $PI"
export EXPORTED=yes
NOT=no
bash -c 'echo "child: [$EXPORTED] [$NOT]"'
NOT=temporary bash -c 'echo "child: [$NOT]"'; echo "still: $NOT"
