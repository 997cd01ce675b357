#!/bin/bash
# Show the bytes of these characters, and their base64.
for character in é € 😀; do
  hex=$(printf '%s' "$character" | od -An -tx1 | tr -d ' \n')
  echo "$character $hex $(printf '%s' "$character" | base64)"
done
echo 'w7E=' | base64 -d
echo
printf '\xe2\x82\xac\n'
