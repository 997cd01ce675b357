#!/bin/bash
# Build JSON from a list of key=value lines, with quotes and backslashes escaped.
escape() {
  local s=$1
  s=${s//\\/\\\\}
  s=${s//\"/\\\"}
  s=${s//$'\t'/\\t}
  s=${s//$'\n'/\\n}
  printf '%s' "$s"
}
printf 'name=Ann "the boss"\npath=C:\\temp\nage=31\nactive=true\nnote=tab\there\n' > input.txt
out="{"
sep=""
while IFS='=' read -r key value; do
  if [[ $value =~ ^-?[0-9]+(\.[0-9]+)?$ || $value == true || $value == false || $value == null ]]; then
    out+="$sep\"$key\": $value"
  else
    out+="$sep\"$key\": \"$(escape "$value")\""
  fi
  sep=", "
done < input.txt
out+="}"
echo "$out"
list=(1 2 3); printf -v joined '%s,' "${list[@]}"; echo "[${joined%,}]"
echo "$out" | grep -o '"age": [0-9]*' | cut -d' ' -f2
echo "$out" | sed -E 's/.*"name": "(([^"\\]|\\.)*)".*/\1/'
