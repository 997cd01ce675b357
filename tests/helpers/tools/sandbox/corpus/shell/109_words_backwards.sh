#!/bin/bash
# Spell these words backwards, and say which are palindromes.
for word in "été" "kayak" "шалаш" "über" "ressasser"; do
  reversed=
  for ((i = ${#word} - 1; i >= 0; i--)); do
    reversed+=${word:i:1}
  done
  if [[ $word == "$reversed" ]]; then kind="a palindrome"; else kind="none"; fi
  echo "$word $reversed: $kind"
done
