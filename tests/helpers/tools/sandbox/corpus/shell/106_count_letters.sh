#!/bin/bash
# How many letters, words and bytes does each of these names have?
for name in "Zoë" "Łukasz Żak" "naïve" "plain" "日本語"; do
  set -- $name
  bytes=$(printf '%s' "$name" | wc -c)
  echo "$name: ${#name} letters, $# words, $bytes bytes"
done
