#!/bin/bash
# Quote strings so that they can be used in a shell again, with printf %q.
args=("simple" "two words" 'it'"'"'s' 'a$b' "semi;colon" "" "*")
for a in "${args[@]}"; do printf '%q\n' "$a"; done
line=$(printf '%q ' "${args[@]}")
eval "again=($line)"
[ "${#again[@]}" -eq "${#args[@]}" ] && echo "same count: ${#again[@]}"
for i in "${!args[@]}"; do [ "${args[i]}" = "${again[i]}" ] || echo "differs: $i"; done
echo 'single: $HOME' "double: \"${#args[@]}\"" $'ansi: tab\there \x41\u0042 it\'s'
set -- one "two three" four
echo "$# [$*] [$1] [${*: -1}]"
for a in "$@"; do echo "<$a>"; done
for a in $@; do printf '(%s)' "$a"; done; echo
echo {a,b}*{1,2} "{a,b}" \\ \" 'a\nb'
