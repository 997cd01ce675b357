#!/bin/bash
# Encode and decode URLs and hexadecimal in pure bash.
urlencode() {
  local s=$1 out="" c i
  for ((i = 0; i < ${#s}; i++)); do
    c=${s:i:1}
    case $c in [a-zA-Z0-9.~_-]) out+=$c ;; *) printf -v c '%%%02X' "'$c"; out+=$c ;; esac
  done
  echo "$out"
}
urldecode() { local s=${1//+/ }; printf '%b\n' "${s//%/\\x}"; }
urlencode "a b&c=d/e?f"
urldecode "a%20b%26c%3Dd+e"
[ "$(urldecode "$(urlencode 'x y+z%')")" = 'x y+z%' ] && echo "round trip"
url="https://user:pw@example.org:8443/path/to/page.html?q=1&lang=de#top"
[[ $url =~ ^([a-z]+)://(([^@]+)@)?([^:/]+)(:([0-9]+))?(/[^?#]*)?(\?([^#]*))?(#(.*))?$ ]]
echo "scheme=${BASH_REMATCH[1]} host=${BASH_REMATCH[4]} port=${BASH_REMATCH[6]} path=${BASH_REMATCH[7]} fragment=${BASH_REMATCH[11]}"
IFS='&' read -ra pairs <<< "${BASH_REMATCH[9]}"
for p in "${pairs[@]}"; do echo "${p%%=*} -> ${p#*=}"; done
ord() { printf '%d' "'$1"; }
chr() { printf "\\$(printf '%03o' "$1")"; }
for c in A z 0; do echo "$c $(ord "$c") $(chr $(( $(ord "$c") + 1 )))"; done
echo "ff0a" | sed 's/../0x& /g' | xargs printf '%d '; echo
