#!/bin/bash
# Validate dates, emails and versions with regular expressions in bash, and take their parts.
for d in 2024-02-30 2024-13-01 24-1-1 1999-12-31; do
  if [[ $d =~ ^([0-9]{4})-(0[1-9]|1[0-2])-([0-2][0-9]|3[01])$ ]]; then
    echo "$d: year=${BASH_REMATCH[1]} month=$((10#${BASH_REMATCH[2]})) day=${BASH_REMATCH[3]}"
  else
    echo "$d: no date"
  fi
done
email='^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$'
for e in ann@example.org bob@x "c d@e.fr" x.y+z@sub.host.io; do
  [[ $e =~ $email ]] && echo "valid: $e" || echo "invalid: $e"
done
version="release-v3.14.159-beta2"
[[ $version =~ v([0-9]+)\.([0-9]+)\.([0-9]+)(-([a-z]+)([0-9]*))? ]]
echo "${BASH_REMATCH[0]} ${#BASH_REMATCH[@]} ${BASH_REMATCH[5]} ${BASH_REMATCH[6]}"
text="key1=val1;key2=val2"
while [[ $text =~ ([a-z0-9]+)=([a-z0-9]+) ]]; do
  echo "${BASH_REMATCH[1]} is ${BASH_REMATCH[2]}"
  text=${text#*"${BASH_REMATCH[0]}"}
done
