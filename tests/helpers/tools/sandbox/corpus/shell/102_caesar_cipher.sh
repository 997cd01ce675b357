#!/bin/bash
# Encrypt a text with a Caesar shift given as argument, and try all shifts to break it.
caesar() {
  local shift=$1 text=$2 out="" c o i
  for ((i = 0; i < ${#text}; i++)); do
    c=${text:i:1}
    printf -v o '%d' "'$c"
    if [[ $c == [a-z] ]]; then o=$(( (o - 97 + shift + 26) % 26 + 97 ))
    elif [[ $c == [A-Z] ]]; then o=$(( (o - 65 + shift + 26) % 26 + 65 ))
    fi
    printf -v c "\\x$(printf '%x' "$o")"
    out+="$c"
  done
  echo "$out"
}
secret=$(caesar 3 "Attack at Dawn; bring xyz!")
echo "$secret"
caesar -3 "$secret"
for s in 1 2 3 4; do
  t=$(caesar -$s "$secret")
  hits=$(grep -oiE 'the|at|ing|and' <<< "$t" | wc -l | tr -d ' ')
  echo "$s: $hits ${t:0:9}"
done | sort -t: -k2,2nr | head -1
low=abcdefghijklmnopqrstuvwxyz; k=5; echo "hello" | tr "$low" "${low:k}${low:0:k}"
