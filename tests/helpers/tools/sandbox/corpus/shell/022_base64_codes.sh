#!/bin/bash
# Encode and decode base64, also of several lines and of binary data.
encoded=$(printf 'user:p@ss word' | base64)
echo "Authorization: Basic $encoded"
echo "$encoded" | base64 -d; echo
seq 1 40 | base64 -w 40 > long.b64
wc -l < long.b64
base64 --decode long.b64 | tail -n 1
printf '\x00\x01\xfe\xff' | base64
printf 'AAH+/w==' | base64 -d | od -An -tx1
for w in a ab abc abcd; do printf '%-5s %s\n' "$w" "$(printf '%s' "$w" | base64)"; done
